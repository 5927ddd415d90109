"""Each piece of work is graded once; failures of infrastructure are not remembered."""

import asyncio

import pytest
from tests.sandbox.grading.conftest import MakeTask

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.cache import GradingCache
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime


class CountingRuntime:
    """Counts sandboxes; the first `failures` acquisitions fail."""

    def __init__(self, runtime: LocalRuntime, failures: int = 0) -> None:
        self.runtime = runtime
        self.failures = failures
        self.acquired = 0

    async def acquire(self, image: str, *, deadline_seconds: float) -> Sandbox:
        self.acquired += 1
        if self.acquired <= self.failures:
            raise InfrastructureError(FailureReason.NODE_LOST, "the node is gone")
        return await self.runtime.acquire(image, deadline_seconds=deadline_seconds)

    async def announce(self, images: list[str]) -> None: ...

    async def close(self) -> None: ...


async def test_same_work_is_graded_once_even_at_the_same_time(make_task: MakeTask, runtime: LocalRuntime) -> None:
    task = make_task("unittest")
    counting = CountingRuntime(runtime)
    cache = GradingCache(counting, timeout_seconds=20.0)

    grades = await asyncio.gather(*(cache.grade(task, patch) for patch in (task.gold_patch, "", task.gold_patch, "")))
    later = await cache.grade(task, "")

    assert [grade.strict for grade in grades] == [True, False, True, False]
    assert later == grades[1]
    assert (counting.acquired, cache.hits) == (2, 3)


async def test_failure_is_tried_again(make_task: MakeTask, runtime: LocalRuntime) -> None:
    task = make_task("unittest")
    cache = GradingCache(CountingRuntime(runtime, failures=1), timeout_seconds=20.0)

    with pytest.raises(InfrastructureError, match="the node is gone"):
        await cache.grade(task, task.gold_patch)

    assert (await cache.grade(task, task.gold_patch)).strict


async def test_old_grades_make_room(make_task: MakeTask, runtime: LocalRuntime) -> None:
    task = make_task("unittest")
    counting = CountingRuntime(runtime)
    cache = GradingCache(counting, timeout_seconds=20.0, capacity=1)

    for patch in ("", task.gold_patch, ""):
        await cache.grade(task, patch)

    assert counting.acquired == 3


async def test_caller_that_gives_up_does_not_take_the_grade_from_others(
    make_task: MakeTask, runtime: LocalRuntime
) -> None:
    task = make_task("unittest")
    cache = GradingCache(runtime, timeout_seconds=20.0)
    impatient = asyncio.create_task(cache.grade(task, task.gold_patch))
    patient = asyncio.create_task(cache.grade(task, task.gold_patch))
    await asyncio.sleep(0)

    impatient.cancel()

    assert (await patient).strict
