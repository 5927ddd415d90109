"""Whether a file has changed."""

from pathlib import Path

Stamp = tuple[int, int]


def file_stamp(path: Path) -> Stamp | None:
    """Differs when the file was written to, or another took its place; None of none, or of one that may not be seen."""
    try:
        found = path.stat()
    except (FileNotFoundError, PermissionError):
        return None
    return found.st_mtime_ns, found.st_size
