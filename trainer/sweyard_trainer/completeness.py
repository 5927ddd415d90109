"""The mark of a directory that is whole: it is put there last, and taken away first."""

from pathlib import Path

COMPLETE = "COMPLETE"


def is_complete(directory: Path) -> bool:
    """True if everything that was written into it is there."""
    return (directory / COMPLETE).is_file()
