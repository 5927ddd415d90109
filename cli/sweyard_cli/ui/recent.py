"""Recent: an answer that is asked for again only once it is old, whoever asks."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """For several threads: of those that come while it is being asked for, each gets that answer."""

    def __init__(self, read: Callable[[], T], *, seconds: float, clock: Callable[[], float]) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def __call__(self) -> T:
        """Raises what reading does; that is not remembered."""
        with self._lock:
            if self._answer is None or self._clock() - self._answer[0] >= self._seconds:
                self._answer = (self._clock(), self._read())
            return self._answer[1]
