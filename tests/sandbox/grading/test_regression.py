"""The verifier runs what was green before, in a real sandbox, and nothing that decides."""

import pytest
from tests.sandbox.grading.conftest import BROKEN, FIXED, MakeTask

from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.grading.regression import regression_score, regression_task
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff

PATCHES = {
    "the solution": (FIXED, 1.0),
    "no solution, but nothing broken": (BROKEN + "# tried\n", 1.0),
    "what was green is broken": (FIXED.replace("result = 0", "result = 1"), 0.0),
    "nothing can be imported": ("raise SystemExit(0)\n", 0.0),
}


async def verified(make_task: MakeTask, runner: str, text: str, runtime: LocalRuntime) -> Grade:
    judged = regression_task(make_task(runner))
    assert judged is not None
    return await grade(judged, unified_diff("till/sums.py", BROKEN, text), runtime, timeout_seconds=20.0)


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize(("text", "score"), PATCHES.values(), ids=PATCHES)
async def test_a_patch_is_scored_by_what_it_breaks(
    make_task: MakeTask, runtime: LocalRuntime, runner: str, text: str, score: float
) -> None:
    found = await verified(make_task, runner, text, runtime)
    assert regression_score(found) == score
    assert list(found.tests) == [f"tests/test_sums.py::{'TotalTest::' * (runner == 'unittest')}test_empty"]
    assert "test_adds" not in found.log


async def test_results_that_were_forged_count_for_nothing(make_task: MakeTask, runtime: LocalRuntime) -> None:
    forger = "import unittest\nunittest.TestCase.assertEqual = lambda *arguments: None\n"
    found = await verified(make_task, "unittest", forger + BROKEN.replace("result = 0", "result = 1"), runtime)
    assert found.official
    assert regression_score(found) == 0.0
