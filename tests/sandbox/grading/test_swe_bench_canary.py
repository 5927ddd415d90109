"""Where the canary of a SWE-bench row goes, and what of a log is its own."""

import pytest

from sweyard_sandbox.grading.canary import MUST_FAIL, make_inner_canaries
from sweyard_sandbox.grading.swe_bench_canary import hidden_file, problems, script_with_canary
from sweyard_sandbox.tasks.diff import file_patch
from sweyard_sandbox.tasks.formats.eval_script import Testing, build_eval_script

DELETED = (
    "diff --git a/tests/test_a.py b/tests/test_a.py\ndeleted file mode 100644\n--- a/tests/test_a.py\n+++ /dev/null\n"
)
DELETED += "@@ -1 +0,0 @@\n-x\n"
FILES = {
    "a file": ("a/a", [file_patch("tests/test_a.py", "", "x\n")], "tests/test_a.py"),
    "the first that is one of tests": (
        "a/a",
        [file_patch("tests/helper.py", "", "x\n"), file_patch("lib/test_b.py", "", "x\n")],
        "lib/test_b.py",
    ),
    "by Django's name of it": (
        "django/django",
        [file_patch("tests/forms/models.py", "", "x\n"), file_patch("tests/forms/tests.py", "", "x\n")],
        "tests/forms/tests.py",
    ),
    "no Python": ("a/a", [file_patch("test-data/check.test", "", "x\n")], None),
    "a deleted one": ("a/a", [DELETED], None),
    "none": ("a/a", [], None),
}


@pytest.mark.parametrize(("repository", "patches", "path"), FILES.values(), ids=FILES)
def test_file_of_the_canary_is_one_that_the_script_runs(repository: str, patches: list[str], path: str | None) -> None:
    patch = "".join(patches)
    script = build_eval_script(
        Testing("pytest -rA"), repository=repository, directory="/testbed", base_commit="0" * 40, test_patch=patch
    )

    assert hidden_file({"eval_script": script, "test_patch": patch}, ()) == path


def test_script_without_a_beginning_of_the_tests_has_no_canary() -> None:
    assert (
        hidden_file({"eval_script": "pytest test_a.py\n", "test_patch": file_patch("test_a.py", "", "x\n")}, ()) is None
    )


def test_file_is_known_by_the_tests_where_the_row_has_no_patch_of_them() -> None:
    row = {"eval_script": ": '>>>>> Start Test Output'\npytest test_a.py\n: '>>>>> End Test Output'\n"}

    assert hidden_file(row, ("test_a.py::test_x",)) == "test_a.py"


@pytest.mark.parametrize("parser", ["parse_log_pytest", "parse_log_sympy"])
def test_canary_is_put_in_directly_before_the_tests(parser: str) -> None:
    [canary] = make_inner_canaries(["/testbed/test_a.py"], lambda: "0" * 64)
    begin = ": '>>>>> Start Test Output'\n"

    script = script_with_canary({"eval_script": f"cd /testbed\n{begin}pytest\n", "log_parser": parser}, canary)

    before, inside, after = script.partition("cat >>/testbed/test_a.py <<'SWEYARD_END_OF_CANARY'\n")
    text, _, rest = after.partition("SWEYARD_END_OF_CANARY\n")
    assert (before, bool(inside), rest) == ("cd /testbed\n", True, f"{begin}pytest\n")
    compile(text, "test_a.py", "exec")
    assert all(f"{what.removeprefix('test')}(" in text for what in (*MUST_FAIL, "test_right"))


NAMES = {
    "pytest": "tests/test_bright.py::Case{name}::{what}",
    "Django": "{what} (bright.tests.Case{name}.{what})",
    "old Django": "{what} (bright.tests.Case{name})",
}


@pytest.mark.parametrize("form", NAMES.values(), ids=NAMES)
def test_statuses_of_canaries_are_found_by_whole_words(form: str) -> None:
    [canary] = make_inner_canaries(["/testbed/tests/test_bright.py"], lambda: "0" * 64)
    good = {form.format(name=canary.name, what=what): "FAILED" for what in MUST_FAIL}
    good |= {form.format(name=canary.name, what="test_right"): "PASSED"}

    assert problems(canary, good) == []
    assert len(problems(canary, dict.fromkeys(good, "PASSED"))) == len(MUST_FAIL)
    assert len(problems(canary, dict.fromkeys(good, "FAILED"))) == 1
    assert len(problems(canary, {"tests/test_bright.py::test_right": "PASSED"})) == len(MUST_FAIL) + 1
