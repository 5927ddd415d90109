"""How far a fetch is: a bar on a terminal, a line now and then in a pipe."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from sweyard_cli.fetch.lender import Place
from sweyard_cli.fetch.listing import Entry, Listing
from sweyard_cli.figures import plural

QUIET_SECONDS = 15.0


class ShownProgress:
    """Told, to people. A context: on a terminal the bar stands as long as it."""

    def __init__(self, console: Console, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._monotonic = monotonic
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None, visible=False)
        self._total, self._came, self._told_at = 0, 0, 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, listing: Listing, missing: Sequence[Entry], place: Place) -> None:
        """As Told."""
        self._total, self._told_at = sum(entry.num_bytes for entry in missing), self._monotonic()
        self._bar.update(self._task, total=self._total, visible=True)
        known = len(listing.entries) - len(missing)
        here = f", {known} of them here already" if known else ""
        self._print(f"{plural(len(listing.entries), 'file')}, {_told_bytes(listing.num_bytes)}{here}")
        if listing.num_refused:
            self._print(f"{plural(listing.num_refused, 'name')} left out, which no file here can have")
        if place.is_live:
            self._print("the run goes on: its files come as they are now; to have the rest, fetch it again later")

    def came(self, num_bytes: int) -> None:
        """As Told."""
        self._came += num_bytes
        self._bar.advance(self._task, num_bytes)
        now = self._monotonic()
        if not self._console.is_terminal and now - self._told_at >= QUIET_SECONDS:
            self._told_at = now
            self._print(f"{_told_bytes(self._came)} of {_told_bytes(self._total)}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


def _told_bytes(count: int) -> str:
    unit, size = next(((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if count >= size), ("kB", 1e3))
    return f"{count / size:.3g} {unit}"
