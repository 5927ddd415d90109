"""One process at a time works on a run's directory, and others can see whether one does.

The lock is the kernel's: it is held by whoever has the file open, and cannot outlive its holder.
"""

import fcntl
import time
from pathlib import Path
from typing import IO

from sweyard_api.program import call
from sweyard_cli.errors import UserError

LOCK_FILE = "run.lock"
LOOK_SECONDS = 0.01
"""How long to leave it to those who share it, since they only look whether it is held."""


def lock(output: Path) -> IO[bytes]:
    """Held until the file, and the copies that children got of it, are closed. Raises UserError if it is held."""
    file = (output / LOCK_FILE).open("a+b")  # over NFS only who may read may share
    while not _acquire(file, fcntl.LOCK_EX):
        if not _acquire(file, fcntl.LOCK_SH):
            file.close()
            raise UserError(
                f"{output}: another process is at work on this run; "
                f"look at it with `{call('watch', '--output', output)}`"
            )
        time.sleep(LOOK_SECONDS)
    return file


def is_locked(output: Path) -> bool | None:
    """Whether a process is at work; None for a directory that was never locked, of which nothing is known."""
    path = output / LOCK_FILE
    if not path.exists():
        return None
    with path.open("rb") as file:  # whoever looks may have no right to write
        return not _acquire(file, fcntl.LOCK_SH)


def _acquire(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
