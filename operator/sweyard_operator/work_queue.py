"""A keyed work queue: equal keys coalesce, one worker per key at a time, failures come back with backoff."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sweyard_operator.errors import log_level
from sweyard_operator.own_time import OwnTime

logger = logging.getLogger(__name__)

_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 60.0
_GAP_SECONDS = 0.1
"""Least time between the starts of two passes over one key, so that a storm of events costs a few passes."""
_MAX_SHARE = 0.05
"""Of the time may be computed in passes over one key: the longer they take the rarer they are, so that the cost of a
storm grows with its events and not with their square. 5 % is a pass of 5 ms, over 500 pods, in every gap."""


class Key(NamedTuple):
    """One object to look at."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


Reconcile = Callable[[Key], Awaitable[float | None]]
"""One pass; returns seconds until the next look even if nothing happens, or None."""
OnPass = Callable[[Key, float, float], None]
"""Told after each pass how many seconds its key waited for a worker, and how many it computed."""


class WorkQueue:
    """`add` from anywhere in the event loop; `run` works until cancelled.

    `work_clock` tells what passes cost: the thread's processor time, in seconds, which stands still while one waits for
    answers and while a busy machine serves others. By a wall clock passes would be rarest where they take longest.
    """

    def __init__(self, *, randomness: random.Random, work_clock: Callable[[], float]) -> None:
        self._random = randomness
        self._work_clock = work_clock
        self._due: dict[Key, asyncio.TimerHandle] = {}
        self._running: dict[Key, float] = {}
        self._again: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._rests_until: dict[Key, float] = {}
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: dict[Key, float] = {}

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Look at `key` soon, or after a while; the earliest wish wins. A key at work is looked at again afterwards."""
        if key in self._queued:
            return
        if key in self._running:
            self._again[key] = min(after_seconds, self._again.get(key, after_seconds))
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time() + after_seconds, self._rests_until.get(key, 0.0))
        timer = self._due.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._due[key] = loop.call_at(due, self._release, key)

    def _release(self, key: Key) -> None:
        del self._due[key]
        self._queued[key] = asyncio.get_running_loop().time()
        self._ready.put_nowait(key)

    async def run(self, reconcile: Reconcile, *, num_workers: int, on_pass: OnPass) -> None:
        """Work with up to `num_workers` keys at once, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(num_workers):
                group.create_task(self._work(reconcile, on_pass))

    async def _work(self, reconcile: Reconcile, on_pass: OnPass) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._ready.get()
            self._running[key] = loop.time()
            waited_seconds = self._running[key] - self._queued.pop(key)
            # A task, so that a failure of any kind is a value here: one bad object must not stop the others.
            own = OwnTime(_call(reconcile, key), self._work_clock)
            task = asyncio.ensure_future(own)
            try:
                await asyncio.wait([task])
            finally:
                task.cancel()
            began = self._running.pop(key)
            on_pass(key, waited_seconds, own.seconds)
            self._rest(key, began + max(_GAP_SECONDS, own.seconds / _MAX_SHARE))
            self._finish(key, task)

    def _rest(self, key: Key, until: float) -> None:
        loop = asyncio.get_running_loop()
        if until > loop.time():
            self._rests_until[key] = until
            loop.call_at(until, self._rests_until.pop, key, None)

    def _finish(self, key: Key, task: "asyncio.Future[float | None]") -> None:
        again = self._again.pop(key, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._failures.pop(key, None)
            wishes = [wish for wish in (again, task.result()) if wish is not None]
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
            delay = self._backoff_seconds(self._failures[key])
            logger.log(
                log_level(error), "pass failed, again in %.1f s", delay, exc_info=error, extra={"object": str(key)}
            )
            wishes = [delay]
        if wishes:
            self.add(key, min(wishes))

    def _backoff_seconds(self, failures: int) -> float:
        return min(_BACKOFF_SECONDS * 2.0 ** (failures - 1), _MAX_BACKOFF_SECONDS) * self._random.uniform(0.75, 1.25)

    def depth(self) -> int:
        """Keys waiting for a worker."""
        return len(self._queued)

    def failing(self) -> dict[Key, int]:
        """Keys whose last pass failed, and how often in a row."""
        return dict(self._failures)

    def longest_pass_seconds(self) -> float:
        """Age of the oldest pass still at work."""
        now = asyncio.get_running_loop().time()
        return max((now - since for since in self._running.values()), default=0.0)


async def _call(reconcile: Reconcile, key: Key) -> float | None:
    return await reconcile(key)
