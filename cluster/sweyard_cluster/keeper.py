"""The process that starts again what ends of a control plane: `python -m sweyard_cluster.keeper NAME`.

What was never started, or was stopped by `down`, has no record and is left alone. Each part has a back-off of its own;
what ended and what was started is told in the keeper's log, whose end `status` shows.
"""

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .control_plane import PARTS, ControlPlane
from .errors import ClusterError
from .lifecycle import Tool
from .locking import exclusive
from .paths import Cache, cache_root
from .terminal import Progress

PERIOD_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
STEADY_SECONDS = 600.0
"""What ran for so long begins with the first pause again."""


@dataclass(frozen=True)
class BackOff:
    """When one part may start again; times are monotonic, in seconds."""

    starts: int = 0
    """In a row."""
    started_at: float | None = None
    due_at: float | None = None
    """None while it runs."""

    def ended(self, now: float) -> "BackOff":
        """It does not run; it is to start after a pause, which is twice the last one."""
        is_steady = self.started_at is not None and now - self.started_at > STEADY_SECONDS
        starts = 0 if is_steady else self.starts
        pause_seconds = min(FIRST_PAUSE_SECONDS * 2.0 ** min(starts, 16), MAX_PAUSE_SECONDS)
        return BackOff(starts, self.started_at, now + pause_seconds)

    def started(self, now: float) -> "BackOff":
        """It was started again."""
        return BackOff(self.starts + 1, now)

    def runs(self) -> "BackOff":
        """Whoever started it."""
        return replace(self, due_at=None)


class Keeper:
    """Looks after the parts of one control plane."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._back_offs = {name: BackOff() for name in PARTS}

    def look(self, now: float) -> None:
        """Note what has ended, and start what is due."""
        for name in PARTS:
            self._back_offs[name] = self._look_at(name, self._back_offs[name], now)

    def _look_at(self, name: str, back_off: BackOff, now: float) -> BackOff:
        processes = self._control_plane.processes
        if processes.running(name) or processes.read(name) is None:
            return back_off.runs()
        if back_off.due_at is None:
            due = back_off.ended(now)
            assert due.due_at is not None
            tell(f"{name} ended and starts again in {due.due_at - now:.0f} s; {processes.last_words(name, lines=1)}")
            return due
        return self._start(name, back_off, now) if now >= back_off.due_at else back_off

    def _start(self, name: str, back_off: BackOff, now: float) -> BackOff:
        """Unless another command did, or took the cluster down, while its end was waited for."""
        processes = self._control_plane.processes
        with exclusive(self._control_plane.paths.lock):
            if processes.running(name) or processes.read(name) is None:
                return back_off.runs()
            try:
                record = self._control_plane.start_part(name)
            except ClusterError as error:
                tell(str(error))
            else:
                tell(f"{name} was started again, pid {record.pid}")
        return back_off.started(now)


def tell(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {' '.join(words.split())}", flush=True)


def main(name: str, environment: Mapping[str, str]) -> None:
    """Look after a cluster for ever."""
    tool = Tool(Cache(cache_root(environment)), environment, Progress())
    keeper = Keeper(tool.parts(tool.spec(name)).control_plane)
    while True:
        keeper.look(time.monotonic())
        # What is started here is a child of this process, whose end nobody else asks for.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], dict(os.environ))
