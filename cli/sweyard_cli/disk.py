"""A disk that takes no writes: where, and what to do, in a sentence."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
LOCKED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def writes_to(place: Path) -> Iterator[None]:
    """Where a full disk is to be looked for: what fails to be written to an open file has no name."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(place)
        raise


def told(error: OSError) -> str:
    """One sentence, with the remedy where there is one."""
    place = error.filename or "what is written"
    if error.errno in FULL:
        return f"no space left for {place}: make some, and run the same command again"
    if error.errno in LOCKED:
        return f"{place}: {error.strerror}; change its permissions, or name another place (--output, SWEYARD_CACHE)"
    return f"{place}: {error.strerror}"
