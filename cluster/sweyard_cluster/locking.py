"""Locks between processes, released by the kernel when their holder dies."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on `path`, waiting for whoever has it; its holder may delete the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a") as handle:
            _lock(handle.fileno(), on_wait)
            if _is_still(path, handle.fileno()):
                yield
                return


def _lock(descriptor: int, on_wait: Callable[[], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one at `path`, not one deleted while we waited."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
