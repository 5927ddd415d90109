"""SWE-smith rows: the fault put in, its reverse as the solution, graded in real sandboxes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.grading.conftest import BROKEN, FIXED, PYTEST, write_tree

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import reversed_patch, unified_diff
from sweyard_sandbox.tasks.formats import detect_format
from sweyard_sandbox.tasks.formats.swe_smith import swe_smith_task
from sweyard_sandbox.tasks.prepare import prepare_sandbox

TEST = "tests/test_sums.py"


def row_of(**changes: Any) -> dict[str, Any]:
    row = {
        "instance_id": "till__till.1fd52536.lm_rewrite__1",
        "repo": "swesmith/till__till.1fd52536",
        "image_name": "swebench/swesmith.x86_64.till_1776_till.1fd52536",
        "problem_statement": "The total is wrong.",
        "patch": "diff --git a/till/sums.py b/till/sums.py\n" + unified_diff("till/sums.py", FIXED, BROKEN),
        "FAIL_TO_PASS": [f"{TEST}::test_adds[prices0-3]", f"{TEST}::test_adds[prices1-5]"],
        "PASS_TO_PASS": [f"{TEST}::test_empty"],
    }
    return row | changes


@pytest.mark.parametrize("solution", ["gold", "nothing"])
async def test_solution_is_the_reverse_of_the_fault(tmp_path: Path, runtime: LocalRuntime, solution: str) -> None:
    write_tree(tmp_path, PYTEST)
    task = swe_smith_task(row_of(), 0)
    grading = {name: value for name, value in task.grading.items() if name != "python"}
    task = task.model_copy(update={"image": f"dir:{tmp_path}", "grading": grading})
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        seen = (await sandbox.run("cat till/sums.py; ls tests", timeout_seconds=60.0)).text

    grade_ = await grade(task, task.gold_patch if solution == "gold" else "", runtime, timeout_seconds=120.0)

    assert seen == f"{BROKEN}__init__.py\n"
    assert (grade_.official, grade_.strict) == ((solution == "gold"),) * 2


def test_row_is_known_and_gives_a_task() -> None:
    task = swe_smith_task(row_of(), 0)

    assert detect_format(row_of(), 0) == "swe-smith"
    assert (task.repository, task.image) == ("till__till.1fd52536", row_of()["image_name"])
    assert task.grading["hidden_files"] == [TEST]
    assert task.grading["python"] == "/opt/miniconda3/envs/testbed/bin/python"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"FAIL_TO_PASS": []}, "'FAIL_TO_PASS' is empty"),
        ({"PASS_TO_PASS": ["TestSuite/TestName"]}, "'TestSuite/TestName' is no test of pytest"),
        ({"patch": ""}, "'patch' must be a non-empty text"),
        ({"image_name": None}, "'image_name' must be"),
    ],
)
def test_wrong_row_is_told(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskFormatError, match=words):
        swe_smith_task(row_of(**changes), 3)


def git(root: Path, *arguments: str, patch: str = "") -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=root, input=patch.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


TEXTS = st.lists(st.sampled_from(["a", "-- b", "++ c", "@@ -1 +1 @@", ""]), max_size=6).map("\n".join)
TREES = st.dictionaries(st.sampled_from(["a.py", "b.py"]), TEXTS, max_size=2)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TREES, after=TREES, executable=st.booleans())
def test_reversed_patch_undoes_what_git_says_was_done(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], after: dict[str, str], executable: bool
) -> None:
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q")
    for tree in (before, after):
        for path in root.glob("*.py"):
            path.unlink()
        for name, text in tree.items():
            (root / name).write_text(text)
            (root / name).chmod(0o755 if executable and tree is after else 0o644)
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "x")
    patch = git(root, "diff", "--no-renames", "HEAD~1", "HEAD")

    git(root, "apply", "--allow-empty", "--index", "-", patch=reversed_patch(patch))

    assert git(root, "diff", "--cached", "HEAD~1") == ""
    assert git(root, "apply", "--allow-empty", "--numstat", "-", patch=reversed_patch(reversed_patch(patch))) == git(
        root, "apply", "--allow-empty", "--numstat", "-", patch=patch
    )
