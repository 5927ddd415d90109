"""KodCode rows graded in real sandboxes: an empty tree, a stub, and tests that only the grader has."""

from pathlib import Path

import pytest

from sweyard_sandbox.grading.extract import extract_work
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.formats.kodcode import kodcode_task
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.task import Task

ROW = {
    "question_id": "Docs_1_I",
    "question": "Return the running maximum.",
    "solution": "def running_max(values):\n    return [max(values[: end + 1]) for end in range(len(values))]\n",
    "test": "from solution import running_max\n\n\ndef test_rises():\n    assert running_max([1, 3, 2]) == [1, 3, 3]\n",
    "test_info": {"function_declaration": "def running_max(values):"},
}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return kodcode_task(ROW | {"image": f"dir:{tmp_path}"}, 0)


@pytest.mark.parametrize("solution", ["gold", "nothing"])
async def test_only_the_solution_passes(task: Task, runtime: LocalRuntime, solution: str) -> None:
    grade_ = await grade(task, task.gold_patch if solution == "gold" else "", runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict) == ((solution == "gold"),) * 2, grade_.log


async def test_agent_writes_into_the_stub_and_sees_no_test(task: Task, runtime: LocalRuntime) -> None:
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        seen = (await sandbox.run("ls; cat solution.py", timeout_seconds=60.0)).text
        await sandbox.write("/testbed/solution.py", ROW["solution"].encode())  # type: ignore[attr-defined]
        work = await extract_work(task, sandbox)

    assert seen.startswith("solution.py\n")
    assert "def running_max(values):" in seen
    assert (await grade(task, work.patch, runtime, timeout_seconds=60.0)).strict
