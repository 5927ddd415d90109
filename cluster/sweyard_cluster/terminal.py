"""Progress for a person: a line that counts seconds on a terminal, one finished line per step in a pipe."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

REFRESH_SECONDS = 0.5
CLEARED = "\r\x1b[K"
"""What a running step shows on a terminal's line is taken away."""


class Progress:
    """Prints steps with their duration; `note` changes the text beside a running step on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self._note = ""

    def say(self, text: str = "") -> None:
        print(text, file=self.stream, flush=True)

    def hint(self, text: str) -> None:
        """What to do next, for people: a program that reads the standard output knows."""
        if sys.stdout.isatty():
            self.say(text)

    def note(self, text: str) -> None:
        self._note = text

    def await_turn(self, holder: str) -> None:
        """What is to be done goes on when `holder` has ended."""
        self.say(f"{CLEARED if self.live else ''}    waits for {holder} to end")

    def milestone(self, text: str) -> None:
        """Part of a long step is done: a line in a pipe, where nothing else tells that it goes on."""
        if not self.live:
            self.say(f"    {text}")

    @contextlib.contextmanager
    def step(self, text: str, *, long: bool = False) -> Iterator[None]:
        """Show `text` while the block runs and how long it took; a failed step is marked as such.

        The beginning of a `long` one is a line of its own in a pipe.
        """
        if long and not self.live:
            self.say(f"  {text} ...")
        started = time.monotonic()
        self._note = ""
        finished = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(text, started, finished), daemon=True)
        if self.live:
            ticker.start()
        mark = "failed"
        try:
            yield
            mark = "done"
        finally:
            finished.set()
            if self.live:
                ticker.join()
                self.stream.write(CLEARED)
            self.say(f"  {text}: {mark} ({time.monotonic() - started:.1f} s)")

    def _tick(self, text: str, started: float, finished: threading.Event) -> None:
        while not finished.wait(REFRESH_SECONDS):
            line = f"  {text} ... {time.monotonic() - started:.0f} s {self._note}"
            self.stream.write(f"{CLEARED}{line[:118]}")
            self.stream.flush()
