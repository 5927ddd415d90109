"""One small task, and how attempts at it are made: the product's own attempt and grader, without retries."""

from pathlib import Path

from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.grading.extract import extract_work
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtime import Runtime, Sandbox
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.prepared import PreparedSandboxes
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.gateway.client import GatewayClient
from sweyard_trainer.rollout.attempt import Workbench

FIXED = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n    return result\n"
BROKEN = FIXED.replace("+=", "-=")
TESTS = """\
import unittest

from till import total


class TotalTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(total([1, 2]), 3)

    def test_empty(self):
        self.assertEqual(total([]), 0)
"""


def make_task(tree: Path) -> Task:
    """A bug in a package of one module, in a tree that is written here."""
    for name, text in {"till.py": FIXED, "tests/test_till.py": TESTS}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    tests = [f"tests/test_till.py::TotalTest::{name}" for name in ("test_adds", "test_empty")]
    return Task(
        id="till",
        repository="till",
        image=f"dir:{tree}",
        working_directory="/testbed",
        problem_statement="The total is wrong.",
        gold_patch=unified_diff("till.py", BROKEN, FIXED),
        setup_patch=unified_diff("till.py", FIXED, BROKEN),
        fail_to_pass=(tests[0],),
        pass_to_pass=(tests[1],),
        grading={"runner": "unittest", "python_path": ["."], "test_files": ["tests/test_till.py"]},
    )


def make_workbench(runtime: Runtime, gateway: GatewayClient, agent: Agent, *, grading_seconds: float) -> Workbench:
    """What one worker works with."""

    async def graded(task: Task, patch: str) -> Grade:
        return await grade(task, patch, runtime, timeout_seconds=grading_seconds)

    async def extracted(task: Task, sandbox: Sandbox) -> str:
        return (await extract_work(task, sandbox)).patch

    return Workbench(
        runtime=runtime,
        gateway=gateway,
        agent=agent,
        acquire=PreparedSandboxes(runtime).acquire,
        extract_patch=extracted,
        grade=graded,
        grade_patiently=graded,
        grade_regressions=graded,
    )
