"""Lines of several logs as one, by time: pure.

Each log is in order by itself. While logs are followed, a line waits a moment for those of others that are older.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """One line of one container."""

    time: str
    """RFC 3339 with nanoseconds, as the kubelet writes it: in the order of time when compared as text."""
    source: str
    text: str = field(compare=False)


def parse_line(source: str, line: str) -> LogLine:
    """Of `2026-01-01T00:00:00.123456789Z text`; a fraction of fewer digits is filled up."""
    stamp, _, text = line.partition(" ")
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return LogLine(f"{whole}.{fraction:0<9}Z", source, text)


def merge(logs: Iterable[Iterable[LogLine]]) -> Iterator[LogLine]:
    """All lines by time."""
    return heapq.merge(*logs)


@dataclass(slots=True)
class Reordering:
    """Lines that came in, held until others can no longer be before them."""

    hold_seconds: float
    _held: list[tuple[LogLine, float]] = field(default_factory=list)

    def take(self, line: LogLine, now: float) -> None:
        """A line that came at `now`."""
        heapq.heappush(self._held, (line, now))

    def due(self, now: float) -> Iterator[LogLine]:
        """Lines that have waited long enough, and those before them."""
        while any(now - came >= self.hold_seconds for _, came in self._held):
            yield heapq.heappop(self._held)[0]
