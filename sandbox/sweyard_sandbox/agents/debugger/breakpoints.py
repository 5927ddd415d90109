"""Breakpoints as values: read from the debugger's list, set again in a new one, moved along with edits. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

ROW = re.compile(r"^(\d+)\s+breakpoint\s+(keep|del)\s+(yes|no)\s+at (.+):(\d+)$")
CONDITION = re.compile(r"^\s+stop only if (.+)$")


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """One line to stop at."""

    number: int
    """The running debugger's."""
    path: str
    line: int
    """From 1."""
    condition: str = ""
    enabled: bool = True

    @property
    def command(self) -> str:
        """What sets it."""
        return f"b {self.path}:{self.line}" + (f", {self.condition}" if self.condition else "")


def parse_list(text: str) -> tuple[Breakpoint, ...]:
    """What `b` without arguments prints; temporary ones are not kept."""
    found: list[Breakpoint | None] = []
    for line in text.splitlines():
        if row := ROW.match(line):
            number, kept, enabled, path, at = row.groups()
            found.append(Breakpoint(int(number), path, int(at), "", enabled == "yes") if kept == "keep" else None)
        elif (match := CONDITION.match(line)) and found and found[-1] is not None:
            found[-1] = replace(found[-1], condition=match[1])
    return tuple(each for each in found if each is not None)


def follow(line: int, before: Sequence[str], after: Sequence[str]) -> int | None:
    """Where a line of `before` is in `after`: the same line, or the one that replaced it; None if it was removed."""
    for tag, old, old_end, new, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if old < line <= old_end:
            if tag == "delete":
                return None
            return min(new + line - old, new_end)
    return None
