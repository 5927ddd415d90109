"""How much a coroutine computes, apart from what it waits for."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class OwnTime(Generic[Result]):
    """Awaits `work` and measures its steps by `clock`, in seconds; tasks that it starts are not its own steps.

    A clock of the thread's processor time does not count what others on a busy machine take.
    """

    def __init__(self, work: Coroutine[Any, Any, Result], clock: Callable[[], float]) -> None:
        self._work = work
        self._clock = clock
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, Result]:
        step: Callable[[Any], Any] = self._work.send
        value: Any = None
        while True:
            began = self._clock()
            try:
                waits_for = step(value)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self.seconds += self._clock() - began
            try:
                value, step = (yield waits_for), self._work.send
            except BaseException as error:
                # Also a cancellation: the work's own to handle.
                value, step = error, self._work.throw
