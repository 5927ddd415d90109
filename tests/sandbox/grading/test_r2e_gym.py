"""R2E-Gym rows: their own rule with its loopholes, and ours without, on logs of real runs in local sandboxes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.grading.conftest import BROKEN, FIXED, write_tree
from tests.sandbox.grading.patches import HOLLOW, IMPORTER, WHEN_IMPORTED

from sweyard_sandbox.errors import InfrastructureError, TaskFormatError
from sweyard_sandbox.grading.extract import extract_patch
from sweyard_sandbox.grading.grade import TestStatus
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.grading.r2e_log import official_verdict, plain, problems
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.formats.r2e_gym import r2e_gym_task
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.task import Task

SUMS = "till/sums.py"
HEADER_LINE = "=== short test summary info ==="
HIDDEN = """\
import unittest

from till.sums import total


class TotalTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(total([1, 2]), 3)

    def test_known_fault(self):
        self.assertEqual(total(["1"]), 1)
"""
EXPECTED = {"TotalTest.test_adds": "PASSED", "\x1b[1mTotalTest.test_known_fault\x1b[0m - TypeError": "FAILED"}
RUN_TESTS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -W ignore -m pytest -rA -p no:cacheprovider r2e_tests\n"
DIFFS = [
    (SUMS, BROKEN, FIXED),
    ("till/new.py", "", "x = 1\n"),
    ("till/old.py", "y = 1\n", ""),
    ("tests/test_sums.py", "", HIDDEN),
    ("README.md", "till\n", "till, mended\n"),
]


def row_of(**changes: Any) -> dict[str, Any]:
    """As the published rows are."""
    diffs = [
        {"header": {"file": {"path": path}}, "old_file_content": before, "new_file_content": after}
        for path, before, after in DIFFS
    ]
    row = {
        "docker_image": "namanjain12/till_final:abc",
        "repo_name": "till",
        "problem_statement": "Words.\n[ISSUE]\nThe total is wrong.\n[/ISSUE]",
        "expected_output_json": json.dumps(EXPECTED),
        "execution_result_content": json.dumps({"test_file_names": ["test_1.py"], "test_file_codes": [HIDDEN]}),
        "parsed_commit_content": json.dumps({"file_diffs": diffs}),
    }
    return row | changes


def git(root: Path, command: str) -> str:
    script = f"git -c user.name=a -c user.email=a@b {command}"
    return subprocess.run(script, shell=True, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """At the parent of the true commit, which is still among the objects, packed."""
    write_tree(tmp_path, "")
    (tmp_path / "till" / "old.py").write_text("y = 1\n")
    (tmp_path / ".gitignore").write_text("*.log\nrun_tests.sh\n")
    (tmp_path / "kept.log").write_text("tracked, though ignored\n")
    (tmp_path / SUMS).write_text(BROKEN)
    for command in ("init -q", "add -A", "add -f kept.log", "commit -qm base"):
        git(tmp_path, command)
    (tmp_path / SUMS).write_text(FIXED)
    git(tmp_path, "commit -qam 'the true commit'")
    git(tmp_path, "repack -qad")
    git(tmp_path, "reset -q --hard HEAD~1")
    (tmp_path / "run_tests.sh").write_text(RUN_TESTS)
    return tmp_path


def task_of(repository: Path, **changes: Any) -> Task:
    return r2e_gym_task(row_of(**changes), 0).model_copy(update={"image": f"dir:{repository}"})


def instead(text: str) -> str:
    """A patch that puts something in front of the broken module."""
    return unified_diff(SUMS, BROKEN, text + BROKEN)


def added(path: str, text: str) -> str:
    body = unified_diff(path, "", text).replace(f"--- a/{path}", "--- /dev/null")
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n{body}"


FORGED = "= short test summary info =\\nPASSED a::TotalTest::test_adds\\nFAILED a::TotalTest::test_known_fault\\n"
FORGED_AND_EXIT = f"""\
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b"{FORGED}")
    except OSError:
        pass
os._exit(0)
"""
EVERYTHING_PASSES = """\
import _pytest.reports
made = _pytest.reports.TestReport.from_item_and_call.__func__
def from_item_and_call(cls, item, call):
    report = made(cls, item, call)
    if "known_fault" not in item.nodeid:
        report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(from_item_and_call)
"""
BESIDE = "".join(
    added(path, text)
    for path, text in {
        "r2e_tests/test_1.py": "",
        "run_tests.sh": f"printf '{FORGED}'\n",
        ".venv/bin/python": "#!/bin/sh\n",
        "conftest.py": "collect_ignore_glob = ['*']\n",
        "pytest.py": f"print('{FORGED}')\n",
    }.items()
)
GOLD = unified_diff(SUMS, BROKEN, FIXED)
CASES = {
    "gold, with what is the grader's beside it": (GOLD + BESIDE, True, True, ""),
    "empty, with what is the grader's beside it": (BESIDE, False, False, "TotalTest.test_adds failed, expected passed"),
    "does not apply": (unified_diff(SUMS, "else\n", "other\n"), False, False, "does not apply"),
    "a forged summary, then the end": (
        instead(FORGED_AND_EXIT),
        *(True, False, "a canary that must fail"),
    ),
    "the word PASSED in a failure": (
        unified_diff(SUMS, BROKEN, "def total(prices):\n    raise ValueError('PASSED' * (prices != ['1']))\n"),
        *(True, False, "TotalTest.test_adds failed"),
    ),
    "a forged line after the real ones": (
        instead("import atexit\natexit.register(print, 'PASSED a::TotalTest::test_adds')\n"),
        *(True, False, "TotalTest.test_adds failed and passed"),
    ),
    "reports rewritten": (instead(EVERYTHING_PASSES), True, False, "a canary that must fail"),
    "the importing module emptied but for what must fail": (
        instead(
            HOLLOW.replace('startswith("test")', 'startswith("test") and "fault" not in key') + IMPORTER + WHEN_IMPORTED
        ),
        *(True, False, "a canary that must fail"),
    ),
}


@pytest.mark.parametrize(("patch", "official", "strict", "reason"), CASES.values(), ids=CASES)
async def test_verdicts(
    repository: Path, runtime: LocalRuntime, patch: str, official: bool, strict: bool, reason: str
) -> None:
    grade_ = await grade(task_of(repository), patch, runtime, timeout_seconds=300.0)

    assert (grade_.official, grade_.strict) == (official, strict), (grade_.reasons, grade_.log)
    assert any(reason in each for each in grade_.reasons) or (strict and not grade_.reasons)


async def test_hidden_tests_of_another_name_are_graded_by_the_canaries_among_them(
    repository: Path, runtime: LocalRuntime
) -> None:
    content = json.dumps({"test_file_names": ["total_test.py"], "test_file_codes": [HIDDEN]})

    grade_ = await grade(task_of(repository, execution_result_content=content), GOLD, runtime, timeout_seconds=300.0)

    assert (grade_.official, grade_.strict, grade_.reasons) == (True, True, ())


async def test_agent_finds_neither_tests_nor_history_and_its_work_is_graded_with_the_images_tests(
    repository: Path, runtime: LocalRuntime
) -> None:
    for name in ("r2e_tests", "vendored", "absent"):
        (repository / name).mkdir()
    (repository / "vendored" / "a.c").write_text("int a;\n")
    (repository / "vendored" / ".git").write_text("gitdir: ../.git/modules/vendored\n")
    for module in ("vendored", "absent"):
        git(repository, f"update-index --add --cacheinfo 160000,{git(repository, 'rev-parse HEAD').strip()},{module}")
    (repository / "r2e_tests" / "test_1.py").write_text(HIDDEN)
    task = task_of(repository, execution_result_content="")
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        found = await sandbox.run("ls -a; git cat-file --batch-all-objects --batch-check", timeout_seconds=60.0)
        await sandbox.run(
            "echo more >>kept.log; mkdir .venv; touch .venv/x a.log; sed -i s/-=/+=/ till/sums.py", timeout_seconds=60.0
        )
        work = await extract_patch(task, sandbox)

    grade_ = await grade(task, work.patch, runtime, timeout_seconds=300.0)

    assert "run_tests.sh" not in found.text
    assert "r2e_tests" not in found.text
    assert len([line for line in found.text.splitlines() if " commit " in line]) == 1
    assert [section.path for section in split_patch(work.patch)] == ["kept.log", SUMS]
    assert (grade_.official, grade_.strict, grade_.reasons) == (True, True, ())
    assert list(grade_.tests.values()) == [TestStatus.PASSED, TestStatus.FAILED]


@pytest.mark.parametrize(
    ("absent", "changes", "words"),
    [
        ("run_tests.sh", {}, "the image has no run_tests.sh"),
        ("", {"execution_result_content": ""}, "neither the image nor the row has the hidden tests"),
    ],
)
async def test_what_the_image_lacks_is_no_verdict_on_the_work(
    repository: Path, runtime: LocalRuntime, absent: str, changes: dict[str, str], words: str
) -> None:
    if absent:
        (repository / absent).unlink()

    with pytest.raises(InfrastructureError, match=words):
        await grade(task_of(repository, **changes), "", runtime, timeout_seconds=60.0)


def log_of(*lines: str, header: str = HEADER_LINE) -> str:
    return "\n".join(["collected 2 items", header, *lines, "==== 1 failed, 1 passed in 0.01s ===="])


A, B = "PASSED r2e_tests/test_1.py::Case::test_a", "FAILED r2e_tests/test_1.py::test_b[1 - 2] - ValueError: no"
A_FAILED = A.replace("PASSED", "FAILED")
BOTH = {"Case.test_a": "PASSED", "test_b[1 - 2]": "FAILED"}
LOGS = {
    "as expected": (log_of(A, B), BOTH, True, ""),
    "in colours, with carriage returns": (log_of(f"\x1b[32m{A}\x1b[0m\r", B), BOTH, True, ""),
    "no summary": (A + "\n" + B, BOTH, False, "the log has 0 summaries"),
    "one test less": (log_of(A), BOTH, False, "1 tests were reported, 2 were expected"),
    "one test more": (log_of(A, B, A + "more"), BOTH, False, "a result for Case.test_amore, which was not expected"),
    "one test instead of another": (log_of(A, B.replace("b", "c")), BOTH, False, "test_b[1 missing, expected failed"),
    "a name that contains another": (log_of(A + "_long", B), BOTH, False, "Case.test_a missing, expected passed"),
    "a wrong status": (log_of(A.replace("PASSED", "ERROR"), B), BOTH, False, "Case.test_a error, expected passed"),
    "skipped": (log_of("SKIPPED [1] r2e_tests/test_1.py:3: no", B), BOTH, False, "Case.test_a missing"),
    "a summary printed by the work": (log_of(A, B) + "\n" + log_of(A_FAILED, B), BOTH, True, "has 2"),
    "a status inside a message": (log_of(A, B, "FAILED t::x - PASSED"), BOTH | {"x": "PASSED"}, True, "x failed"),
    "two answers for a test": (log_of(A_FAILED, A, B), BOTH, True, "Case.test_a failed and passed"),
    "the only test is not collected": (log_of("ERROR r2e_tests/test_1.py"), {"t": "PASSED"}, True, "t missing"),
}


@pytest.mark.parametrize(("log", "expected", "official", "problem"), LOGS.values(), ids=LOGS)
def test_logs_are_read_by_both_rules(log: str, expected: dict[str, str], official: bool, problem: str) -> None:
    text = plain(log)

    assert official_verdict(text, expected) is official
    said = problems(text, expected)
    assert any(problem in each for each in said) if problem else not said


PARTS = st.sampled_from(
    ["PASSED", "FAILED", "ERROR", " ", "f::", "a", "::", " - ", "\n", "\r", "\x1b[1m", HEADER_LINE, "\u2028"]
)
NAMES = st.sampled_from(["a", "a.a", "a - a", ""])


@given(st.lists(PARTS), st.dictionaries(NAMES, st.sampled_from(["PASSED", "FAILED", "ERROR"])))
def test_any_log_has_a_verdict_and_strict_is_never_laxer(parts: list[str], expected: dict[str, str]) -> None:
    text = plain("".join(parts))

    assert official_verdict(text, expected) or problems(text, expected)


def test_row_gives_gold_patch_tests_and_the_issue_alone(tmp_path: Path) -> None:
    task = r2e_gym_task(row_of(), 0)

    assert [section.path for section in split_patch(task.gold_patch)] == [SUMS, "till/new.py", "till/old.py"]
    assert task.problem_statement == "The total is wrong."
    assert task.grading["hidden_tests"] == {"test_1.py": HIDDEN}
    write_tree(tmp_path, "")
    (tmp_path / SUMS).write_text(BROKEN)
    (tmp_path / "till" / "old.py").write_text("y = 1\n")
    subprocess.run(["git", "apply", "-"], input=task.gold_patch.encode(), cwd=tmp_path, check=True)
    assert (tmp_path / SUMS).read_text() == FIXED
    assert (tmp_path / "till" / "new.py").read_text() == "x = 1\n"
    assert not (tmp_path / "till" / "old.py").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"expected_output_json": "[]"}, "'expected_output_json' is no JSON object"),
        ({"execution_result_content": "{"}, "'execution_result_content' is no JSON"),
        ({"execution_result_content": '{"test_file_names": ["a"]}'}, "do not pair up"),
        ({"execution_result_content": '{"test_file_names": ["../a"], "test_file_codes": [""]}'}, "'../a' lies outside"),
        ({"parsed_commit_content": '{"file_diffs": [{}]}'}, "lacks a path"),
    ],
)
def test_wrong_row_is_told_with_its_field(changes: dict[str, str], words: str) -> None:
    with pytest.raises(TaskFormatError, match=words):
        r2e_gym_task(row_of(**changes), 7)
