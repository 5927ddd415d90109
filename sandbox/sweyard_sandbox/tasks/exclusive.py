"""One making at a time in a cache: sources, verdicts and data sets in it are shared by all.

The lock is the kernel's: it is held by whoever has the file open, and cannot outlive its holder.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "making.lock"


@contextmanager
def exclusive(cache: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Held in the block; where another making is at work, `tell` says so, and its end is waited for."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / LOCK_FILE).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another making of tasks is at work in {cache}; waiting for its end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
