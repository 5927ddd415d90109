"""SWE-bench rows graded by swebench 5 itself, on the log of a real run in a local sandbox."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.grading.conftest import BROKEN, FIXED, PYTEST, UNITTEST, write_tree
from tests.sandbox.grading.patches import HOLLOW, IMPORTER, WHEN_IMPORTED, added, rewritten

from sweyard_sandbox.errors import InfrastructureError, TaskFormatError
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.grading.swe_bench import readable
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import file_patch, unified_diff
from sweyard_sandbox.tasks.formats.multi_swe import multi_swe_task
from sweyard_sandbox.tasks.formats.swe_bench import swe_bench_task

EVAL_SCRIPT = """\
#!/bin/bash
set -uxo pipefail
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
cd /testbed
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_sums.py
: '>>>>> End Test Output'
git checkout README.md
"""
ADDS, ADDS_MORE = "tests/test_sums.py::test_adds[prices0-3]", "tests/test_sums.py::test_adds[prices1-5]"
EMPTY = "tests/test_sums.py::test_empty"
GOLD = unified_diff("till/sums.py", BROKEN, FIXED)
SKIP_EMPTY = "    import pytest\n    prices or pytest.skip()\n    result = 0\n"
FORGED = "import sys\nprint('>>>>> Test Exit Code: 0', file=sys.__stdout__)\n"


def row_of(**changes: Any) -> dict[str, Any]:
    row = {
        "instance_id": "till__till-1",
        "repo": "till/till",
        "base_commit": "0" * 40,
        "version": "1",
        "problem_statement": "The total is wrong.",
        "patch": GOLD,
        "test_patch": "",
        "FAIL_TO_PASS": f'["{ADDS}", "{ADDS_MORE}"]',
        "PASS_TO_PASS": [EMPTY],
        "image": "till:1",
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": EVAL_SCRIPT,
    }
    return row | changes


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_tree(tmp_path, PYTEST)
    (tmp_path / "till" / "sums.py").write_text(BROKEN)
    script = "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm base"
    subprocess.run(script, shell=True, cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("patch", "official", "strict", "reason"),
    [
        (GOLD, True, True, ""),
        (GOLD.rstrip("\n"), True, True, ""),
        ("", False, False, f"{ADDS} failed"),
        ("garbage", False, False, "does not apply"),
        (unified_diff("till/sums.py", BROKEN, "import os\nos._exit(0)\n"), False, False, f"{ADDS} missing"),
        (unified_diff("till/sums.py", BROKEN, f"def (\n{FIXED}"), False, False, f"{ADDS} missing"),
        (
            unified_diff("till/sums.py", BROKEN, FIXED.replace("    result = 0\n", SKIP_EMPTY)),
            False,
            False,
            f"{EMPTY} missing",
        ),
    ],
    ids=[
        "gold",
        "gold without its last line break",
        "empty",
        "garbage",
        "exit",
        "syntax error",
        "skips a test that passed before",
    ],
)
async def test_verdicts(
    repository: Path, runtime: LocalRuntime, patch: str, official: bool, strict: bool, reason: str
) -> None:
    task = swe_bench_task(row_of(), 0).model_copy(update={"image": f"dir:{repository}"})

    grade_ = await grade(task, patch, runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict) == (official, strict)
    assert any(reason in each for each in grade_.reasons) or (strict and not grade_.reasons)


async def test_printed_exit_code_does_not_count_for_strict(repository: Path, runtime: LocalRuntime) -> None:
    forged = FORGED + "print('>>>>> Test Exit Code: 7', file=sys.__stdout__)\n" + FIXED
    task = swe_bench_task(row_of(eval_script=EVAL_SCRIPT.replace("-rA", "-s -rA")), 0)

    grade_ = await grade(
        task.model_copy(update={"image": f"dir:{repository}"}),
        unified_diff("till/sums.py", BROKEN, forged),
        runtime,
        timeout_seconds=60.0,
    )

    assert not grade_.strict
    assert "the log shows more than one exit code" in grade_.reasons


REWRITES = """\
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
PASSES = "".join(f"PASSED {test}\\n" for test in (ADDS, ADDS_MORE, EMPTY))
SAYS = f"import os\nos.write(1, b'\\n{PASSES}')\n"
COLLECTS_NONE = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
CHEATS = {
    "a conftest.py that rewrites results": (added("conftest.py", REWRITES), True, f"{ADDS} failed"),
    "a plugin of pytest": (
        rewritten("") + added("evil.py", REWRITES) + added("pytest.ini", "[pytest]\naddopts = -p evil\n"),
        True,
        f"{ADDS} failed",
    ),
    "a forged summary, then the end": (rewritten(SAYS + "os._exit(0)\n"), True, "a canary that must fail"),
    "a forged end, then the end": (
        rewritten(SAYS + "os.write(1, b'>>>>> End Test Output\\n')\nos._exit(0)\n"),
        True,
        "a canary that must fail",
    ),
    "forged lines behind the real ones": (
        rewritten(f"import atexit, os\natexit.register(os.write, 1, b'\\n{PASSES}')\n"),
        True,
        f"{ADDS} has two answers",
    ),
    "the importing module emptied": (rewritten(HOLLOW + IMPORTER + WHEN_IMPORTED), True, "a canary that must fail"),
    "words of a broken environment": (
        rewritten("import os\nos.write(1, b'Could not resolve host\\n')\nos.kill(os.getppid(), 9)\nos._exit(0)\n"),
        False,
        "without the work it is not so",
    ),
    "a conftest.py that collects nothing": (added("conftest.py", COLLECTS_NONE), False, f"{ADDS} missing"),
}


@pytest.mark.parametrize("cheat", CHEATS)
async def test_cheats_deceive_the_official_rule_at_most(repository: Path, runtime: LocalRuntime, cheat: str) -> None:
    patch, official, reason = CHEATS[cheat]
    script = EVAL_SCRIPT.replace("-rA", "-s -rA").replace("export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1\n", "")
    task = swe_bench_task(row_of(eval_script=script), 0).model_copy(update={"image": f"dir:{repository}"})

    grade_ = await grade(task, patch, runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict) == (official, False)
    assert any(reason in each for each in grade_.reasons)


async def test_right_repair_with_configuration_beside_it_counts_without_that(
    repository: Path, runtime: LocalRuntime
) -> None:
    task = swe_bench_task(row_of(), 0).model_copy(update={"image": f"dir:{repository}"})

    grade_ = await grade(task, GOLD + added("conftest.py", "x = 1\n"), runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict, grade_.reasons) == (True, True, ())
    assert "left out: conftest.py" in grade_.log


async def test_environment_that_is_broken_without_the_work_too_is_a_failure_of_infrastructure(
    repository: Path, runtime: LocalRuntime
) -> None:
    script = EVAL_SCRIPT.replace("python3 -m pytest", "echo Could not resolve host; exit 1; python3 -m pytest")
    task = swe_bench_task(row_of(eval_script=script), 0).model_copy(update={"image": f"dir:{repository}"})

    with pytest.raises(InfrastructureError, match="network_unreachable"):
        await grade(task, GOLD, runtime, timeout_seconds=60.0)


DJANGO = "python3 -m unittest -v tests.test_sums"
SYMPY = (
    "python3 -c \"from sympy.testing.runtests import PyTestReporter, SymPyTests; import sys; sys.path.insert(0, '.'); "
    "tests = SymPyTests(PyTestReporter(verbose=True, colors=False), seed=1); "
    "tests._testfiles = ['tests/test_sums.py']; tests.test(sort=True)\" tests/test_sums.py"
)
FUNCTIONS = "from till.sums import total\n\n\ndef test_adds():\n    assert total([1, 2]) == 3\n"
OTHER_RUNNERS = {
    "Django's": (UNITTEST, DJANGO, "parse_log_django", "test_adds (tests.test_sums.TotalTest.test_adds)"),
    "sympy's": (FUNCTIONS, SYMPY, "parse_log_sympy", "test_adds"),
}


@pytest.mark.parametrize(
    "patch", [GOLD, "", rewritten(HOLLOW + IMPORTER + WHEN_IMPORTED)], ids=["gold", "empty", "cheat"]
)
@pytest.mark.parametrize("runner", OTHER_RUNNERS)
async def test_canaries_are_among_the_tests_of_every_runner(
    repository: Path, runtime: LocalRuntime, runner: str, patch: str
) -> None:
    tests, command, parser, test = OTHER_RUNNERS[runner]
    script = EVAL_SCRIPT.replace("python3 -m pytest -rA -p no:cacheprovider tests/test_sums.py", command)
    hidden = file_patch("tests/test_sums.py", "", tests)
    row = row_of(eval_script=script, log_parser=parser, test_patch=hidden, FAIL_TO_PASS=[test], PASS_TO_PASS=[])
    (repository / "tests" / "test_sums.py").write_text(tests)
    task = swe_bench_task(row, 0).model_copy(update={"image": f"dir:{repository}"})

    grade_ = await grade(task, patch, runtime, timeout_seconds=60.0)

    assert grade_.strict == (patch == GOLD), grade_
    assert "Case" in grade_.log or "test_" in grade_.log
    if patch not in (GOLD, ""):
        assert any("a canary that must fail" in reason for reason in grade_.reasons)


async def test_each_hidden_file_has_canaries(repository: Path, runtime: LocalRuntime) -> None:
    """Work that empties the file that imports it leaves the others alone."""
    script = EVAL_SCRIPT.replace("tests/test_sums.py", "tests/test_apart.py tests/test_sums.py")
    apart = "def test_apart():\n    assert True\n"
    (repository / "tests" / "test_apart.py").write_text(apart)
    hidden = file_patch("tests/test_apart.py", "", apart) + file_patch("tests/test_sums.py", "", PYTEST)
    task = swe_bench_task(row_of(eval_script=script, test_patch=hidden), 0)
    task = task.model_copy(update={"image": f"dir:{repository}"})

    gold, cheat = [
        await grade(task, patch, runtime, timeout_seconds=60.0)
        for patch in (GOLD, rewritten(HOLLOW + IMPORTER + WHEN_IMPORTED))
    ]

    assert (gold.strict, gold.reasons) == (True, ())
    assert (cheat.official, cheat.strict) == (True, False)


STOPS = "import unittest.case\ndef total(prices):\n    raise unittest.case._ShouldStop\n"


async def test_the_exception_that_ends_a_case_as_passed_ends_none(repository: Path, runtime: LocalRuntime) -> None:
    tests, command, parser, test = OTHER_RUNNERS["Django's"]
    script = EVAL_SCRIPT.replace("python3 -m pytest -rA -p no:cacheprovider tests/test_sums.py", command)
    hidden = file_patch("tests/test_sums.py", "", tests)
    row = row_of(eval_script=script, log_parser=parser, test_patch=hidden, FAIL_TO_PASS=[test], PASS_TO_PASS=[])
    (repository / "tests" / "test_sums.py").write_text(tests)
    task = swe_bench_task(row, 0).model_copy(update={"image": f"dir:{repository}"})

    grade_ = await grade(task, unified_diff("till/sums.py", BROKEN, STOPS), runtime, timeout_seconds=60.0)

    assert f"{test} failed" in grade_.reasons


GO = """\
grep -q "result += price" till/sums.py && word=PASS || word=FAIL
echo "=== RUN   TestTotal/adds"; echo "    --- $word: TestTotal/adds (0.00s)"
[ -e solution ] && echo "--- PASS: TestTotal/adds (0.00s)"
echo "--- PASS: TestEmpty (0.00s)"
"""


@pytest.mark.parametrize("patch", [GOLD, ""], ids=["gold", "empty"])
async def test_multi_swe_row_is_graded_without_the_solution_that_its_image_has(
    repository: Path, runtime: LocalRuntime, patch: str
) -> None:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    (repository / "run.sh").write_text(GO)
    (repository / "solution").write_text(GOLD)
    row = {
        "org": "till",
        "repo": "till",
        "number": 1,
        "base": {"sha": commit.stdout.strip()},
        "title": "The total is wrong.",
        "fix_patch": GOLD,
        "test_patch": file_patch("till_test.go", "", "package till\n"),
        "fixed_tests": {"TestTotal/adds": {"fix": "PASS"}},
        "p2p_tests": {"TestEmpty": {"fix": "PASS"}},
    }
    task = multi_swe_task(row, 0)
    script = task.grading["row"]["eval_script"].replace("/home/till", "/testbed").replace("/home/", "/testbed/")
    grading = {"row": task.grading["row"] | {"eval_script": script}, "hidden_files": ["/testbed/solution"]}
    task = task.model_copy(update={"image": f"dir:{repository}", "grading": grading})

    grade_ = await grade(task, patch, runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict) == ((patch == GOLD),) * 2, grade_.log


def test_long_lines_of_a_log_are_read_by_their_ends() -> None:
    line = "test_adds " + "x " * 1_000_000 + "ok"

    log = readable(f"before\n{line}\nafter", 400)

    assert len(log) < 500
    assert log.startswith("before\ntest_adds x")
    assert log.endswith(" ok\nafter")


SCHEMA_5 = ("image", "log_parser", "eval_type", "eval_script")


async def test_row_of_the_older_schema_of_an_unknown_repository_says_what_it_lacks(runtime: LocalRuntime) -> None:
    task = swe_bench_task({key: value for key, value in row_of().items() if key not in SCHEMA_5}, 0)

    assert task.image == "swebench/sweb.eval.x86_64.till_1776_till-1:latest"
    assert task.fail_to_pass == (ADDS, ADDS_MORE)
    with pytest.raises(TaskFormatError, match="eval_script"):
        await grade(task, "", runtime, timeout_seconds=1.0)


@pytest.mark.parametrize("patch", [GOLD, ""], ids=["gold", "empty"])
async def test_row_of_the_older_schema_is_graded_by_a_script_made_for_it(
    repository: Path, runtime: LocalRuntime, patch: str
) -> None:
    """The hidden test is put in from the row, and the row's repository is one that swebench 4 knew."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    row = {key: value for key, value in row_of().items() if key not in SCHEMA_5}
    hidden = "def test_hidden():\n    from till.sums import total\n    assert total([4]) == 4\n"
    row |= {
        "repo": "pallets/flask",
        "base_commit": commit.stdout.strip(),
        "test_patch": file_patch("tests/test_hidden.py", "", hidden),
        "FAIL_TO_PASS": ["tests/test_hidden.py::test_hidden"],
        "PASS_TO_PASS": [],
    }
    task = swe_bench_task(row, 0)
    script = task.grading["row"]["eval_script"].replace(
        "source /opt/miniconda3/bin/activate\nconda activate testbed", ""
    )
    graded = {"row": task.grading["row"] | {"eval_script": script}}

    grade_ = await grade(
        task.model_copy(update={"image": f"dir:{repository}", "grading": graded}), patch, runtime, timeout_seconds=60.0
    )

    assert (grade_.official, grade_.strict) == ((patch == GOLD),) * 2, grade_.log
