"""Work that ends the sandbox in which it is graded is judged by that, and not graded again."""

import pytest
from tests.sandbox.grading.conftest import MakeTask

from sweyard_sandbox.errors import FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.fake import FakeRuntime, Reply


def dying(error: InfrastructureError) -> FakeRuntime:
    return FakeRuntime(script=[Reply("python", error=error)])


async def test_it_is_neither_officially_nor_strictly_solved(make_task: MakeTask) -> None:
    task = make_task("unittest")
    runtime = dying(SandboxEndedError())
    verdict = await grade(task, task.gold_patch, runtime, timeout_seconds=20.0)
    assert (verdict.official, verdict.strict) == (False, False)
    assert verdict.reasons == ("what ran in the sandbox ended its first process",)
    assert runtime.released == ["fake-0"]


async def test_a_sandbox_that_dies_otherwise_gives_no_verdict(make_task: MakeTask) -> None:
    task = make_task("unittest")
    with pytest.raises(InfrastructureError, match="gone"):
        await grade(task, "", dying(InfrastructureError(FailureReason.NODE_LOST, "gone")), timeout_seconds=20.0)
