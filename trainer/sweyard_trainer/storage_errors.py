"""What the run's volume can do wrong, as types."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from sweyard_sandbox.errors import SweyardError


class StorageFullError(SweyardError, OSError, ValueError):
    """The run's volume, or its quota, is full. The user's to mend: starting again would only fill it again."""


@contextmanager
def full_disk_as_storage_full(directory: Path) -> Iterator[None]:
    """Turn the operating system's words for a full disk, wherever they come from, into StorageFullError."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _says_full(error):
            raise
        place = getattr(error, "filename", None) or directory
        raise StorageFullError(
            f"no space left for {place}: make some, enlarge storage.size, or lower checkpoint.keep"
        ) from error


def _says_full(error: BaseException) -> bool:
    """Libraries wrap the errno, in a cause or in words only (the Rust and C++ writers of tensors)."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    words = str(error).lower()
    return "no space left" in words or "quota exceeded" in words
