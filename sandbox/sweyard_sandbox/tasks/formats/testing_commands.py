"""How the repositories of SWE-bench and of SWE-Gym are tested.

Facts of swebench 4.1 (harness/constants/python.py, harness/log_parsers/python.py) and of SWE-Gym's fork of swebench
(harness/constants.py). The parsers have the same names in swebench 5.
"""

from collections.abc import Mapping

from sweyard_sandbox.tasks.formats.eval_script import Testing

_UTF8 = tuple(f"export {name}" for name in ("LANG=en_US.UTF-8", "LC_ALL=en_US.UTF-8", "LANGUAGE=en_US:en"))
_DJANGO = "./tests/runtests.py --verbosity 2"

SWE_BENCH: Mapping[str, Testing] = {
    "astropy/astropy": Testing("pytest -rA -vv -o console_output_style=classic --tb=no", "parse_log_astropy"),
    "django/django": Testing(
        f"{_DJANGO} --settings=test_sqlite --parallel 1",
        "parse_log_django",
        (*_UTF8, "export PYTHONIOENCODING=utf8"),
    ),
    "matplotlib/matplotlib": Testing("pytest -rA", "parse_log_matplotlib"),
    "mwaskom/seaborn": Testing("pytest --no-header -rA", "parse_log_seaborn"),
    "pallets/flask": Testing("pytest -rA", "parse_log_flask"),
    "psf/requests": Testing("pytest -rA", "parse_log_requests"),
    "pydata/xarray": Testing("pytest -rA", "parse_log_xarray"),
    "pylint-dev/pylint": Testing("pytest -rA", "parse_log_pylint"),
    "pytest-dev/pytest": Testing("pytest -rA"),
    "scikit-learn/scikit-learn": Testing(
        "pytest -rA",
        "parse_log_scikit",
        ("python -m pip install -v --no-use-pep517 --no-build-isolation --no-deps -e .",),
    ),
    "sphinx-doc/sphinx": Testing("tox --current-env -epy39 -v --", "parse_log_sphinx"),
    "sympy/sympy": Testing(
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose", "parse_log_sympy"
    ),
}
DJANGO_1_9 = Testing(_DJANGO, "parse_log_django", SWE_BENCH["django/django"].before)
"""That version's runner knows no settings of its own, and runs tests one after the other."""

SWE_GYM: Mapping[str, Testing] = {
    "Project-MONAI/MONAI": Testing("pytest -rA"),
    "bokeh/bokeh": Testing("pytest -rA -n0"),
    "conan-io/conan": Testing("pytest -n0 -rA", before=("export PYTHONPATH=${PYTHONPATH:-}:$(pwd)",)),
    "dask/dask": Testing("pytest -n0 -rA --color=no"),
    "facebookresearch/hydra": Testing("pytest -rA --tb=long"),
    "getmoto/moto": Testing("pytest -n0 -rA"),
    "iterative/dvc": Testing("pytest -rA"),
    "modin-project/modin": Testing("pytest -n0 -rA"),
    "pandas-dev/pandas": Testing("pytest -rA --tb=long"),
    "pydantic/pydantic": Testing("pytest -rA --tb=short -vv -o console_output_style=classic --no-header"),
    "python/mypy": Testing("pytest -n0 -rA -k"),
}


def swe_bench_testing(repository: str, version: str) -> Testing | None:
    """Of a repository of SWE-bench; None for another one."""
    if repository == "django/django" and version == "1.9":
        return DJANGO_1_9
    return SWE_BENCH.get(repository)
