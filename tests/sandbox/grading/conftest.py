"""A small package with a bug, as a task for each runner, and real local sandboxes to grade it in."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.task import Task

BROKEN = "def total(prices):\n    result = 0\n    for price in prices:\n        result -= price\n    return result\n"
FIXED = BROKEN.replace("-=", "+=")
UNITTEST = """\
import unittest

from till.sums import total


class TotalTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(total([1, 2]), 3)

    def test_adds_more(self):
        self.assertTrue(total([5]) == 5)

    def test_empty(self):
        self.assertEqual(total([]), 0)
"""
PYTEST = """\
import pytest

from till.sums import total


@pytest.mark.parametrize(("prices", "expected"), [([1, 2], 3), ([5], 5)])
def test_adds(prices, expected):
    assert total(prices) == expected


def test_empty():
    assert total([]) == 0
"""
TESTS = {
    "unittest": ("TotalTest::test_adds", "TotalTest::test_adds_more", "TotalTest::test_empty"),
    "pytest": ("test_adds[prices0-3]", "test_adds[prices1-5]", "test_empty"),
}


def write_tree(root: Path, test_text: str) -> None:
    """The clean tree."""
    for path, text in {
        "till/__init__.py": "",
        "till/sums.py": FIXED,
        "tests/__init__.py": "",
        "tests/test_sums.py": test_text,
        "README.md": "till\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def till_task(root: Path) -> Task:
    """The tree at `root`, written there, with its bug; graded by unittest."""
    write_tree(root, UNITTEST)
    tests = [f"tests/test_sums.py::TotalTest::{name}" for name in ("test_adds", "test_empty")]
    return Task(
        id="till",
        repository="till",
        image=f"dir:{root}",
        working_directory="/testbed",
        problem_statement="The total is wrong.",
        gold_patch=unified_diff("till/sums.py", BROKEN, FIXED),
        setup_patch=unified_diff("till/sums.py", FIXED, BROKEN),
        fail_to_pass=(tests[0],),
        pass_to_pass=(tests[1],),
        grading={"runner": "unittest", "python_path": ["."], "test_files": ["tests/test_sums.py"]},
    )


MakeTask = Callable[[str], Task]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    def make(runner: str, **changes: Any) -> Task:
        root = tmp_path / runner
        write_tree(root, UNITTEST if runner == "unittest" else PYTEST)
        first, second, third = (f"tests/test_sums.py::{name}" for name in TESTS[runner])
        grading = {"runner": runner, "python_path": ["."], "test_files": ["tests/test_sums.py"]}
        grading["hidden_files"] = ["tests/test_sums.py"]
        task = Task(
            id=f"till-{runner}",
            repository="till",
            image=f"dir:{root}",
            working_directory="/testbed",
            problem_statement="The total is wrong.",
            gold_patch=unified_diff("till/sums.py", BROKEN, FIXED),
            setup_patch=unified_diff("till/sums.py", FIXED, BROKEN),
            fail_to_pass=(first, second),
            pass_to_pass=(third,),
            grading=grading,
        )
        return task.model_copy(update=changes)

    return make


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    local = LocalRuntime()
    yield local
    await local.close()
