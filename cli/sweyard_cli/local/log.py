"""The trainer's log, and the sentence in it that says why it ended."""

import os
import re
from pathlib import Path

from sweyard_cli.report.text import visible

LOG_FILE = "run.log"
TAIL_BYTES = 65_536
_MARK = "error: "
_RANK = re.compile(r"^\[rank\d+\]:")
"""PyTorch puts it before the lines of a traceback."""


def tail(path: Path, since_byte: int = 0) -> str:
    """The last part of a log, of what was written after `since_byte`; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since_byte, size - TAIL_BYTES))
        return file.read().decode(errors="replace")


def last_sentence(log: str) -> str:
    """What the trainer said last: its own error sentence, else the last line, which ends a traceback; in signs that
    command no terminal."""
    lines = [line for raw in log.splitlines() if (line := _RANK.sub("", raw).strip())]
    errors = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    return visible((errors or lines or ["it said nothing"])[-1])
