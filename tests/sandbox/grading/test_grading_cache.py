"""Each piece of work is graded once; failures of infrastructure are not remembered."""

import asyncio

import pytest
from tests.sandbox.grading.conftest import MakeTask

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.cache import GradingCache
from sweyard_sandbox.grading.extract import extract_patch
from sweyard_sandbox.grading.patch import canonical_patch
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.prepare import prepare_sandbox


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


async def test_a_task_of_the_same_id_from_another_data_set_is_another(
    make_task: MakeTask, runtime: LocalRuntime
) -> None:
    task = make_task("unittest")
    without_its_fault = task.model_copy(update={"setup_patch": ""})
    cache = GradingCache(runtime, timeout_seconds=20.0)

    grades = [await cache.grade(each, "") for each in (task, without_its_fault)]

    assert [grade.strict for grade in grades] == [False, True]


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


async def test_the_gold_patch_written_by_git_is_the_same_work(make_task: MakeTask, runtime: LocalRuntime) -> None:
    task = make_task("unittest")
    counting = CountingRuntime(runtime)
    cache = GradingCache(counting, timeout_seconds=20.0)
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        await sandbox.run("sed -i 's/-=/+=/' till/sums.py", timeout_seconds=30.0)
        written = (await extract_patch(task, sandbox)).patch

    assert written != task.gold_patch
    assert (await cache.grade(task, task.gold_patch)) == (await cache.grade(task, written))
    assert counting.acquired == 1


SECTION = (
    "diff --git a/x.py b/x.py\nindex 1234567..89abcde 100644\n"
    "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n"
)
SAME = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(SAME, True, id="no-git-headers"),
        pytest.param(SECTION.replace("1234567", "7654321"), True, id="other-blobs"),
        pytest.param(SECTION.replace(" def f():", " class C:"), True, id="other-heading"),
        pytest.param(SECTION.replace("+c", "+d"), False, id="other-text"),
        pytest.param(SECTION.replace("x.py", "y.py"), False, id="other-file"),
        pytest.param(SECTION.replace("-1,2 +1,2", "-2,2 +2,2"), False, id="other-place"),
        pytest.param(SECTION.replace("100644", "120000"), False, id="a-link"),
        pytest.param(SECTION.replace("index", "old mode 100644\nnew mode 100755\nindex"), False, id="other-mode"),
        pytest.param(SECTION.replace(" a\n", " index 1234567\n"), False, id="content-like-a-header"),
        pytest.param("diff --git a/x.py b/x.py\nold mode 100644\nnew mode 100755\n", False, id="only-a-mode"),
    ],
)
def test_patches_are_the_same_work_only_if_they_do_the_same(other: str, same: bool) -> None:
    assert (canonical_patch(SECTION) == canonical_patch(other)) is same


def test_a_patch_without_hunks_keeps_the_names_of_its_files() -> None:
    modes = "diff --git a/{0} b/{0}\nold mode 100644\nnew mode 100755\n"
    assert canonical_patch(modes.format("x")) != canonical_patch(modes.format("y"))
