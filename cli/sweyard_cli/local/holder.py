"""Which process works on a run's directory, by the kernel's list of locks (proc_locks(5))."""

import os
from pathlib import Path

from sweyard_cli.local.lock import LOCK_FILE

LOCKS = Path("/proc/locks")


def find_holder(output: Path, locks: str) -> int | None:
    """Process id of who took the run's lock, of the text of /proc/locks; None if nobody of this machine did."""
    path = output / LOCK_FILE
    if not path.exists():
        return None
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks.splitlines():
        fields = line.split()  # 1: FLOCK ADVISORY WRITE pid major:minor:inode start end; one that waits has -> after 1:
        if fields[1] == "FLOCK" and fields[3] == "WRITE" and fields[5] == place:
            return int(fields[4])
    return None
