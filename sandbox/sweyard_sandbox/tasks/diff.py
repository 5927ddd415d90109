"""Unified diffs of text, as git writes and applies them."""

import difflib
from collections.abc import Iterator


def lines_of(text: str) -> list[str]:
    """Lines with their newline; only a line feed ends a line, as for git."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def unified_diff(path: str, before: str, after: str) -> str:
    """Patch that turns `before` into `after` at `path` (git apply -p1); empty if they are equal."""
    return "".join(_marked(difflib.unified_diff(lines_of(before), lines_of(after), f"a/{path}", f"b/{path}")))


def _marked(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
