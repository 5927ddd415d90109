"""Weights are there for whoever may enter their directory.

safetensors gives its files to the account that writes them alone; an engine on the same volume, or who uses an export,
may be another.
"""

import stat
from pathlib import Path

_READ = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH


def make_readable(directory: Path) -> None:
    """Let its weights, written by this process, be read by those who may read `directory`."""
    readers = directory.stat().st_mode & _READ
    for file in directory.glob("*.safetensors"):
        file.chmod(stat.S_IMODE(file.stat().st_mode) | readers)
