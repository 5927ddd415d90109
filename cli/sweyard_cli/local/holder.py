"""Which process works on a run's directory, by the locks of the files that each process has open (proc(5), fdinfo).

The list of all locks will not do: it names who took a lock. A trainer has it from the command that started it, which
may be gone, and its number another process's.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from sweyard_cli.local.lock import LOCK_FILE

PROCESSES = Path("/proc")


def find_holder(output: Path) -> int | None:
    """Process id of who holds the run's lock; None if nobody does that this account can see."""
    path = output / LOCK_FILE
    if not path.exists():
        return None
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders = {pid for pid in _pids() if _holds(pid, place)}
    return next((pid for pid in sorted(holders) if _parent(pid) not in holders), None)  # not one that it has forked


def _pids() -> Iterator[int]:
    return (int(path.name) for path in PROCESSES.iterdir() if path.name.isdecimal())


def _holds(pid: int, place: str) -> bool:
    try:
        return any(_is_lock(path.read_text(), place) for path in (PROCESSES / str(pid) / "fdinfo").iterdir())
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended meanwhile, or is another account's
        return False


def _is_lock(descriptor: str, place: str) -> bool:
    """One of its lines is `lock: 1: FLOCK ADVISORY WRITE pid major:minor:inode start end`."""
    lines = (line.split() for line in descriptor.splitlines() if line.startswith("lock:"))
    return any(fields[2] == "FLOCK" and fields[4] == "WRITE" and fields[6] == place for fields in lines)


def _parent(pid: int) -> int | None:
    try:
        stat = (PROCESSES / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[1])  # behind the name, which may hold anything
