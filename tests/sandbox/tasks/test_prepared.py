"""A task is prepared once and found prepared in every sandbox, each of which is its own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.extract import extract_patch
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.fake import FakeRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.prepared import PreparedSandboxes
from sweyard_sandbox.tasks.task import Task

LISTING = (
    "find . -not -path './.git/*' -printf '%y %m %U %l %p\\n' | sort; "
    "find . -type f -not -path './.git/*' -exec sha256sum {} + | sort; git log --format=%s; git status"
)


@dataclass
class CountedPreparation:
    times: int = 0
    fail_first: bool = False

    async def __call__(self, task: Task, sandbox: Sandbox) -> None:
        self.times += 1
        if self.fail_first and self.times == 1:
            raise InfrastructureError(FailureReason.ERROR, "made to fail by the test")
        await prepare_sandbox(task, sandbox)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    tree = tmp_path / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "code.py").write_text("x = 1\n")
    (tree / "tests" / "test_code.py").write_text("hidden\n")
    (tree / "tool.sh").write_text("#!/bin/sh\n")
    (tree / "tool.sh").chmod(0o755)
    (tree / "link").symlink_to("code.py")
    return Task(
        id="t",
        repository="r",
        image=f"dir:{tree}",
        working_directory="/testbed",
        problem_statement="",
        gold_patch="",
        fail_to_pass=(),
        setup_patch=unified_diff("code.py", "x = 1\n", "x = 2\n"),
        grading={"hidden_files": ["tests/test_code.py"]},
    )


@pytest.fixture(params=["isolated", "unisolated"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[LocalRuntime]:
    made = LocalRuntime(LocalConfig(allow_unisolated=True))
    if request.param == "unisolated":
        made._isolated = False  # as on a system without namespaces
    yield made
    await made.close()


async def test_every_sandbox_is_as_if_it_were_prepared_itself(runtime: LocalRuntime, task: Task) -> None:
    count = CountedPreparation()
    sandboxes = PreparedSandboxes(runtime, count)
    async with await runtime.acquire(task.image, deadline_seconds=10) as sandbox:
        await prepare_sandbox(task, sandbox)
        expected = (await sandbox.run(LISTING, timeout_seconds=20)).text
    made = await asyncio.gather(*(sandboxes.acquire(task, 10.0) for _ in range(3)))

    listings = [(await sandbox.run(LISTING, timeout_seconds=20)).text for sandbox in made]
    await made[0].run("echo 'x = 3' >code.py; rm -rf tool.sh .git/refs/heads", timeout_seconds=20)
    later = await sandboxes.acquire(task, 10.0)
    patches = [(await extract_patch(task, sandbox)).patch for sandbox in (made[1], later)]

    assert count.times == 1
    assert listings == [expected] * 3
    assert (await later.run("cat code.py", timeout_seconds=20)).text == "x = 2\n"
    assert patches == ["", ""]
    for sandbox in (*made, later):
        await sandbox.close()


async def test_a_task_of_the_same_id_from_another_data_set_has_its_own_tree(runtime: LocalRuntime, task: Task) -> None:
    sandboxes = PreparedSandboxes(runtime)
    other = task.model_copy(update={"setup_patch": unified_diff("code.py", "x = 1\n", "x = 3\n")})
    said = []
    for each in (task, other):
        async with await sandboxes.acquire(each, 10.0) as sandbox:
            said.append((await sandbox.run("cat code.py", timeout_seconds=20)).text)

    assert said == ["x = 2\n", "x = 3\n"]


async def test_a_preparation_that_failed_is_tried_again(runtime: LocalRuntime, task: Task) -> None:
    count = CountedPreparation(fail_first=True)
    sandboxes = PreparedSandboxes(runtime, count)
    with pytest.raises(InfrastructureError):
        await sandboxes.acquire(task, 10.0)

    async with await sandboxes.acquire(task, 10.0) as sandbox:
        assert (await sandbox.run("cat code.py", timeout_seconds=20)).text == "x = 2\n"
    assert count.times == 2


async def test_a_tree_too_large_to_keep_is_prepared_each_time(runtime: LocalRuntime, task: Task) -> None:
    Path(task.image.removeprefix("dir:"), "big").write_bytes(bytes(40_000_000))
    count = CountedPreparation()
    sandboxes = PreparedSandboxes(runtime, count)
    for _ in range(2):
        async with await sandboxes.acquire(task, 10.0) as sandbox:
            assert (await sandbox.run("cat code.py", timeout_seconds=20)).text == "x = 2\n"
    assert count.times == 3


async def test_a_runtime_that_keeps_no_trees_prepares_each_sandbox(task: Task) -> None:
    prepared: list[str] = []

    async def prepare(task: Task, sandbox: Sandbox) -> None:
        prepared.append(sandbox.id)

    sandboxes = PreparedSandboxes(FakeRuntime(), prepare)
    made = [await sandboxes.acquire(task, 10.0) for _ in range(2)]

    assert prepared == [sandbox.id for sandbox in made]
