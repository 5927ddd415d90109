"""What a run's storage can do wrong, as types."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from sweyard_sandbox.errors import SweyardError


class StorageFullError(SweyardError, OSError, ValueError):
    """The run's volume, or its quota, is full. The user's to mend: starting again would only fill it again."""


class StorageReadOnlyError(SweyardError, OSError, ValueError):
    """The run's volume takes no writes. The user's to mend, too."""


@contextmanager
def typed_storage_errors(directory: Path | str) -> Iterator[None]:
    """Turn the operating system's words for a full or read-only disk, wherever they come from, into types of ours."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        place = getattr(error, "filename", None) or directory
        if _says(error, (errno.ENOSPC, errno.EDQUOT), ("no space left", "quota exceeded")):
            raise StorageFullError(
                f"no space left for {place}: make some, enlarge storage.size, or lower checkpoint.keep"
            ) from error
        if _says(error, (errno.EROFS,), ("read-only file system",)):
            raise StorageReadOnlyError(
                f"{place} cannot be written, its file system is read-only: mount the run's volume for writing"
            ) from error
        raise


def _says(error: BaseException, numbers: tuple[int, ...], phrases: tuple[str, ...]) -> bool:
    """Libraries wrap the errno, in a cause or in words only (the Rust and C++ writers of tensors)."""
    cause: BaseException | None = error
    while cause is not None:
        words = str(cause).lower()
        if (isinstance(cause, OSError) and cause.errno in numbers) or any(phrase in words for phrase in phrases):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
