"""An event loop whose clock jumps to the next timer: hours of waiting pass in milliseconds.

Only for code whose every wait is a timer or another task; a real socket would be overtaken by the jumps.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class DeadlockError(RuntimeError):
    """Every task waits for another and no timer is set."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: tells the loop how far to jump instead."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise DeadlockError("all tasks wait for each other")
        self._jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at 1,000 seconds, so that a forgotten `or 0.0` shows."""

    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__(_JumpingSelector(self.advance))

    def advance(self, seconds: float) -> None:
        """As if a computation had kept the loop busy for so long."""
        self._now += seconds

    def time(self) -> float:
        """Virtual seconds."""
        return self._now


def run_in_virtual_time(main: Coroutine[Any, Any, Result]) -> Result:
    """As asyncio.run."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
