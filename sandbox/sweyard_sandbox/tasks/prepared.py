"""Sandboxes in which an agent finds its task. Where the runtime keeps trees, each task is prepared once, not each time.

Every attempt has a fresh sandbox all the same: only the tree that it begins with is shared, and that is read-only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from sweyard_sandbox.runtime import KeepsTrees, Runtime, Sandbox
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.task import Task

Prepare = Callable[[Task, Sandbox], Awaitable[None]]


async def acquire_prepared(
    runtime: Runtime, task: Task, deadline_seconds: float, prepare: Prepare = prepare_sandbox
) -> Sandbox:
    """A fresh sandbox of `task`, prepared. Raises InfrastructureError."""
    sandbox = await runtime.acquire(task.image, deadline_seconds=deadline_seconds)
    try:
        await prepare(task, sandbox)
    except BaseException:  # a cancelled preparation, too, must not leave its sandbox behind
        await sandbox.close()
        raise
    return sandbox


class PreparedSandboxes:
    """Claims sandboxes of one runtime."""

    def __init__(self, runtime: Runtime, prepare: Prepare = prepare_sandbox) -> None:
        self._runtime = runtime
        self._prepare = prepare
        self._kept: dict[Hashable, asyncio.Task[str | None]] = {}
        """By task: the image of its prepared tree, or None where it could not be kept."""

    async def acquire(self, task: Task, deadline_seconds: float) -> Sandbox:
        """A fresh sandbox of `task`, prepared. Raises InfrastructureError."""
        if task.work == "patch" and isinstance(self._runtime, KeepsTrees):  # else more than its tree is looked at
            image = await self._image(task, self._runtime, deadline_seconds)
            if image is not None:
                return await self._runtime.acquire(image, deadline_seconds=deadline_seconds)
        return await self._make(task, deadline_seconds)

    async def _make(self, task: Task, deadline_seconds: float) -> Sandbox:
        return await acquire_prepared(self._runtime, task, deadline_seconds, self._prepare)

    async def _image(self, task: Task, runtime: KeepsTrees, deadline_seconds: float) -> str | None:
        """Made by the first who asks. Failures are not remembered."""
        running = self._kept.get(task.identity)
        if running is None:
            running = self._kept[task.identity] = asyncio.create_task(self._keep(task, runtime, deadline_seconds))
            running.add_done_callback(lambda done: self._forget_failure(task.identity, done))
        # One caller's cancellation must not take the image from the others.
        return await asyncio.shield(running)

    async def _keep(self, task: Task, runtime: KeepsTrees, deadline_seconds: float) -> str | None:
        async with await self._make(task, deadline_seconds) as sandbox:
            return await runtime.keep_tree(sandbox)

    def _forget_failure(self, identity: Hashable, done: "asyncio.Task[str | None]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._kept.pop(identity, None)
