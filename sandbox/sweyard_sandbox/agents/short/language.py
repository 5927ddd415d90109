"""The words of the `short` agent: its prompt, its calls, and what it is told. Pure.

fix old text|new text            replace a text that occurs once in the marked line; any text
edit LINE|old text|new text      the same in any line of the file (a very small model gets long numbers wrong)
done                             hand in
"""

import re
from dataclasses import dataclass

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.task import Task

LINE_CHARACTERS = 72
CONTEXT_CHARACTERS = 40
"""Of a line beside the fault's."""
OK = "ok"
UNKNOWN_CALL = "say fix old|new, edit LINE|old|new or done"
EDIT = re.compile(r"(?:edit (?P<line>\d{1,7})\||fix )(?P<halves>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """A call to replace a text."""

    line: int | None
    """None: the marked one."""
    halves: str
    """`old|new`; where the code itself has bars, old is the longest text that the line holds once."""


@dataclass(frozen=True, slots=True)
class Done:
    """A call to hand in."""


def parse_call(reply: str) -> Edit | Done | None:
    """The call in a reply, or None if there is none. Surrounding newlines do not matter."""
    text = reply.strip("\r\n")
    if text.strip() == "done":
        return Done()
    match = EDIT.fullmatch(text)
    if match is None or "|" not in match["halves"] or "\n" in text:
        return None
    return Edit(int(match["line"]) if match["line"] else None, match["halves"])


def replace_in_line(line: str, halves: str) -> tuple[str, str]:
    """The line with the text replaced, and what to say. An unchanged line comes with the reason."""
    splits = [(halves[:bar], halves[bar + 1 :]) for bar, letter in enumerate(halves) if letter == "|"]
    for old, new in reversed(splits):
        if old and line.count(old) == 1:
            return line.replace(old, new), OK
    places = max((line.count(old) for old, _ in splits if old), default=0)
    return line, f"old text is in {places} places"


def render_prompt(task: Task) -> str:
    """File, function, and the lines around the fault, whose own is marked. Raises TaskFormatError without context."""
    if not task.context:
        raise TaskFormatError(
            f"task {task.id}: the `short` agent needs `context` (file, function, lines), as in `sweyard tasks make`; "
            f"use another agent for this data set"
        )
    lines = [_line(number, text, number == task.context["line"]) for number, text in task.context["lines"]]
    name = task.context["function"].rsplit(".", 1)[-1]
    return "\n".join([f"{task.context['path'].rsplit('/', 1)[-1]} {name}", *lines])


def _line(number: int, text: str, is_fault: bool) -> str:
    return f"{number}{'>' if is_fault else ' '}{text.strip()[: LINE_CHARACTERS if is_fault else CONTEXT_CHARACTERS]}"


def render_fix(old: str, new: str) -> str:
    """A call that edits the marked line, as the model writes it."""
    return f"fix {old}|{new}"
