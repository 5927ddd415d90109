"""Locks between processes, released by the kernel when their holder dies."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, waiting for whoever has it; its holder may delete the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still(path, handle.fileno()):
                yield
                return


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one at `path`, not one deleted while we waited."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
