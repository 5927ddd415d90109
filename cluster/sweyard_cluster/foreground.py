"""A program that a command waits for: it ends with the command, whatever ends that."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

GRACE_SECONDS = 10.0
"""For a program to end what it has begun."""


@contextlib.contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Until it ends. Where the block is left before, it is ended with all that it started.

    It has a session of its own, so that its children are known, and Ctrl-C reaches it by us alone.
    """
    with subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **options) as process:
        try:
            yield process
            process.wait()
        finally:
            if process.poll() is None:
                end_session(process)


def end_session(process: subprocess.Popen[str], grace_seconds: float = GRACE_SECONDS) -> None:
    """SIGTERM to the leader, which may tidy up; then SIGKILL to what is left."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_as_told() -> None:
    """SIGTERM and SIGHUP unwind this process as Ctrl-C does, so that nothing that it began is left running."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
