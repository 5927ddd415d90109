"""Occupancy: how much of some places was in use since one last looked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Occupancy:
    """Of `num_places`, over time."""

    def __init__(self, num_places: int, monotonic: Callable[[], float]) -> None:
        """`monotonic` says the time in seconds."""
        self._num_places = num_places
        self._monotonic = monotonic
        self._num_used = 0
        self._used_seconds = 0.0
        self._counted_at = self._looked_at = monotonic()

    @property
    def num_used(self) -> int:
        """Places in use now."""
        return self._num_used

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """One place more, as long as it lasts."""
        self._count()
        self._num_used += 1
        try:
            yield
        finally:
            self._count()
            self._num_used -= 1

    def idle_fraction(self) -> float:
        """Share of all places times time that nobody used since the last call; 0 if no time has passed."""
        self._count()
        seconds = self._counted_at - self._looked_at
        used = self._used_seconds
        self._looked_at, self._used_seconds = self._counted_at, 0.0
        return 1.0 - used / (self._num_places * seconds) if seconds else 0.0

    def _count(self) -> None:
        now = self._monotonic()
        self._used_seconds += self._num_used * (now - self._counted_at)
        self._counted_at = now
