"""Where the canary of a SWE-bench row goes, and what of a log is its own."""

import pytest

from sweyard_sandbox.grading.canary import MUST_FAIL, make_inner_canaries
from sweyard_sandbox.grading.compiled_canary import compiled_text
from sweyard_sandbox.grading.swe_bench_canary import files_for_canaries, problems, script_with_canaries
from sweyard_sandbox.tasks.diff import file_patch
from sweyard_sandbox.tasks.formats.eval_script import Testing, build_eval_script

DELETED = (
    "diff --git a/tests/test_a.py b/tests/test_a.py\ndeleted file mode 100644\n--- a/tests/test_a.py\n+++ /dev/null\n"
)
DELETED += "@@ -1 +0,0 @@\n-x\n"
NEW_GO = "func TestNew(t *testing.T) {}\n"
NEW_RUST = "#[test]\nfn new() {}\n"
FILES = {
    "a file": ("a/a", [file_patch("tests/test_a.py", "", "x\n")], ["tests/test_a.py"]),
    "all that are of tests": (
        "a/a",
        [file_patch(path, "", "x\n") for path in ("tests/helper.py", "lib/test_b.py", "lib/test_c.py")],
        ["lib/test_b.py", "lib/test_c.py"],
    ),
    "by Django's name of it": (
        "django/django",
        [file_patch("tests/forms/models.py", "", "x\n"), file_patch("tests/forms/tests.py", "", "x\n")],
        ["tests/forms/tests.py"],
    ),
    "no Python": ("a/a", [file_patch("test-data/check.test", "", "x\n")], []),
    "Go for another parser": ("a/a", [file_patch("a_test.go", "", NEW_GO)], []),
    "a deleted one": ("a/a", [DELETED], []),
    "none": ("a/a", [], []),
}


@pytest.mark.parametrize(("repository", "patches", "paths"), FILES.values(), ids=FILES)
def test_files_of_canaries_are_those_that_the_script_runs(
    repository: str, patches: list[str], paths: list[str]
) -> None:
    row = row_of(repository, "".join(patches), "parse_log_pytest")

    assert files_for_canaries(row, ()) == paths


def test_file_that_no_command_names_is_known_by_a_test_of_it_that_must_pass() -> None:
    patch = file_patch("tests/test_a.py", "", "x\n") + file_patch("tests/test_b.py", "", "x\n")
    row = {
        "eval_script": ": '>>>>> Start Test Output'\npytest\n",
        "test_patch": patch,
        "log_parser": "parse_log_pytest",
    }

    assert files_for_canaries(row, ("tests/test_b.py::test_x", "elsewhere/test_c.py::test_y")) == ["tests/test_b.py"]


def row_of(repository: str, patch: str, parser: str) -> dict[str, str]:
    script = build_eval_script(
        Testing("pytest -rA"), repository=repository, directory="/testbed", base_commit="0" * 40, test_patch=patch
    )
    return {"eval_script": script, "test_patch": patch, "log_parser": parser}


COMPILED = {
    "Go": (
        "parse_log_gotest",
        {"a/a_test.go": NEW_GO, "a/help_test.go": "var x = 1\n", "a/a.go": NEW_GO},
        "a/a_test.go",
    ),
    "Rust": ("parse_log_cargo", {"tests/a.rs": NEW_RUST, "tests/common/mod.rs": "fn x() {}\n"}, "tests/a.rs"),
}


@pytest.mark.parametrize(("parser", "texts", "path"), COMPILED.values(), ids=COMPILED)
def test_files_of_compiled_tests_hold_canaries_where_they_show_a_test(
    parser: str, texts: dict[str, str], path: str
) -> None:
    patch = "".join(file_patch(name, "", text) for name, text in texts.items())

    assert files_for_canaries(row_of("a/a", patch, parser), ()) == [path]


def test_script_without_a_beginning_of_the_tests_has_no_canary() -> None:
    row = row_of("a/a", file_patch("test_a.py", "", "x\n") + file_patch("a_test.go", "", NEW_GO), "parse_log_gotest")

    assert files_for_canaries(row | {"eval_script": "pytest test_a.py\n"}, ()) == []


def test_file_is_known_by_the_tests_where_the_row_has_no_patch_of_them() -> None:
    row = {"eval_script": ": '>>>>> Start Test Output'\npytest test_a.py\n: '>>>>> End Test Output'\n"}

    assert files_for_canaries(row, ("test_a.py::test_x",)) == ["test_a.py"]


@pytest.mark.parametrize("parser", ["parse_log_pytest", "parse_log_sympy"])
def test_canary_is_put_in_directly_before_the_tests(parser: str) -> None:
    [canary] = make_inner_canaries(["/testbed/test_a.py"], lambda: "0" * 64)
    begin = ": '>>>>> Start Test Output'\n"

    row = {"eval_script": f"cd /testbed\n{begin}pytest\n", "log_parser": parser}

    script = script_with_canaries(row, [canary])

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


LOGS = {
    "Go": ("a/a_test.go", "Test_{name}_{what}", (*MUST_FAIL, "test_right")),
    "Rust": ("tests/a.rs", "zzz_test_{name}_{what}", ("test_right",)),
    "Rust within a module": ("src/a/b.rs", "a::b::zzz_test_{name}_{what}", ("test_right",)),
}


@pytest.mark.parametrize(("path", "form", "functions"), LOGS.values(), ids=LOGS)
def test_statuses_of_compiled_canaries_are_found(path: str, form: str, functions: tuple[str, ...]) -> None:
    [canary] = make_inner_canaries([path], lambda: "0" * 64)
    names = {what: form.format(name=canary.name, what=what.removeprefix("test_")) for what in functions}
    good = {name: "PASSED" if what == "test_right" else "FAILED" for what, name in names.items()}

    assert problems(canary, good) == []
    assert len(problems(canary, {})) == len(functions)
    assert "a canary that must pass (test_right) did not" in problems(canary, dict.fromkeys(good, "FAILED"))
    assert all(f" {name.rsplit('::', 1)[-1]}(" in compiled_text(canary) for name in good)
