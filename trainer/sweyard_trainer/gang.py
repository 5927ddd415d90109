"""The pods of one trainer gang as a Ray cluster: rank 0 is the head and ends the others by a mark on the volume.

All pods of the Job must end alike: a Ray node that merely lost its head could not tell success from failure.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sweyard_sandbox.errors import SweyardError

logger = logging.getLogger(__name__)

RAY_PORT = 6379
POLL_SECONDS = 2.0
RAY = (sys.executable, "-m", "ray.scripts.scripts")


class GangBrokenError(SweyardError):
    """Ray does not run on this pod any more, or could not be started."""


def start_head() -> None:
    """Start Ray on rank 0."""
    _ray("start", "--head", f"--port={RAY_PORT}", "--include-dashboard=false", "--disable-usage-stats")


def join(head_address: str, *, deadline_seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Start Ray on another rank; the head may still be starting."""
    give_up_at = time.monotonic() + deadline_seconds
    while True:
        try:
            return _ray("start", f"--address={head_address}:{RAY_PORT}", "--disable-usage-stats")
        except GangBrokenError:
            if time.monotonic() >= give_up_at:
                raise
            sleep(POLL_SECONDS)


def leave() -> None:
    """Stop Ray on this pod."""
    subprocess.run([*RAY, "stop", "--force"], check=False, capture_output=True)


def end_mark(storage: Path, attempt: int) -> Path:
    """File in which rank 0 leaves the exit code of its attempt."""
    return storage / "gang" / f"attempt-{attempt}"


def leave_mark(mark: Path, exit_code: int) -> None:
    """Tell the other pods how it ended; on a volume that is full or read-only they learn it from the end of Ray, and
    this pod still ends with its own code."""
    partial = mark.with_suffix(".tmp")
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(str(exit_code), encoding="utf-8")
        partial.replace(mark)
    except OSError as error:
        logger.error("the other pods cannot be told that this attempt ended with %d: %s", exit_code, error)


def stop_mark(storage: Path, attempt: int) -> Path:
    """File by which any pod of an attempt asks rank 0 for a checkpoint and the end."""
    return storage / "gang" / f"stop-{attempt}"


def ask_for_stop(mark: Path) -> None:
    """What a rank does that is told to end: a drain evicts one pod, and only rank 0 can save what all of them hold."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def stop_when_asked(mark: Path, stop: Callable[[], None], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait for a pod to ask, then `stop` once."""
    while not mark.exists():
        sleep(POLL_SECONDS)
    stop()


def wait_for_mark(mark: Path, *, is_alive: Callable[[], bool], sleep: Callable[[float], None] = time.sleep) -> int:
    """Exit code that rank 0 left. Raises GangBrokenError once this pod's part is dead without one."""
    while True:
        alive = is_alive()
        if mark.exists():
            return int(mark.read_text(encoding="utf-8"))
        if not alive:
            raise GangBrokenError("Ray, or an engine, ended on this pod before rank 0 did")
        sleep(POLL_SECONDS)


def ray_is_alive() -> bool:
    """Whether the raylet of this pod runs."""
    return any(
        path.read_bytes().split(b"\0", 1)[0].endswith(b"raylet")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    )


def _ray(*arguments: str) -> None:
    done = subprocess.run([*RAY, *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise GangBrokenError(f"ray {arguments[0]} failed: {(done.stderr or done.stdout)[-500:]}")
