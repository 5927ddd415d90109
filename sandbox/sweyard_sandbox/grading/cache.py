"""Grades remembered by task and patch: attempts of a group often hand in the same work."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Hashable

from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.patch import canonical_patch
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.tasks.task import Task


class GradingCache:
    """Grades each piece of work once, also when asked for it twice at the same time.

    Failures and timeouts are not remembered.
    """

    def __init__(self, runtime: Runtime, *, timeout_seconds: float, capacity: int = 10_000) -> None:
        self.runtime = runtime
        self.timeout_seconds = timeout_seconds
        self.capacity = capacity
        self.hits = 0
        self._grades: OrderedDict[tuple[Hashable, str], asyncio.Task[Grade]] = OrderedDict()

    async def grade(self, task: Task, patch: str) -> Grade:
        """As `registry.grade`."""
        work = (patch if task.work == "files" else canonical_patch(patch)).encode("utf-8", "surrogateescape")
        key = (task.identity, hashlib.sha256(work).hexdigest())
        running = self._grades.get(key)
        if running is None:
            grading = grade(task, patch, self.runtime, timeout_seconds=self.timeout_seconds)
            running = self._grades[key] = asyncio.create_task(grading)
            running.add_done_callback(lambda done: self._forget_failure(key, done))
        else:
            self.hits += 1
        self._grades.move_to_end(key)
        while len(self._grades) > self.capacity:
            self._grades.popitem(last=False)
        # One caller's cancellation must not take the grade from the others.
        return await asyncio.shield(running)

    def _forget_failure(self, key: tuple[Hashable, str], done: "asyncio.Task[Grade]") -> None:
        if done.cancelled() or done.exception() is not None or done.result().timed_out:
            self._grades.pop(key, None)
