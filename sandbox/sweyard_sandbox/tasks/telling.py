"""Progress of a making: one line that changes on a terminal; in a pipe now and then a line, none of quick work."""

from collections.abc import Callable
from typing import TextIO

INTERVAL_SECONDS = 10.0


class Telling:
    """Called with what is true now."""

    def __init__(self, stream: TextIO, monotonic: Callable[[], float]) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._monotonic = monotonic
        self._told_at = monotonic()

    def __call__(self, text: str) -> None:
        """In a pipe, what was verified before is replayed faster than a first line comes."""
        if self._is_terminal:
            print(f"\r\033[K{text}", end="", file=self._stream, flush=True)
        elif self._monotonic() - self._told_at >= INTERVAL_SECONDS:
            print(text, file=self._stream, flush=True)
            self._told_at = self._monotonic()

    def end(self) -> None:
        """The line on a terminal is over."""
        if self._is_terminal:
            print(file=self._stream)
