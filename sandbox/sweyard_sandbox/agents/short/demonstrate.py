"""Scripted solvers for the `short` agent: the right repair, or a plausible wrong one. Pure, by seed."""

import random
import re
from collections.abc import Iterator

from sweyard_sandbox.agents.short.language import render_fix, replace_in_line
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.tasks.task import Task

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
WRONG = {
    "==": ("!=", "is"),
    "!=": ("==",),
    "<=": ("<", ">="),
    ">=": (">", "<="),
    "<": ("<=", ">"),
    ">": (">=", "<"),
    "+": ("-",),
    "-": ("+",),
    "and": ("or",),
    "or": ("and",),
    "not ": ("",),
    "is": ("is not",),
    "in": ("not in",),
    "True": ("False",),
    "False": ("True",),
    "None": ("0", "True"),
    "0": ("1",),
    "1": ("0", "2"),
    "min": ("max",),
    "max": ("min",),
    "if ": ("if not ",),
    "return ": ("return not ",),
}
OPERATORS = re.compile("|".join(re.escape(text) if not text[0].isalnum() else rf"\b{text}" for text in WRONG))


def right_edit(task: Task) -> str:
    """The call that undoes the fault."""
    broken, fixed = fault_lines(task)
    return render_fix(*shortest_edit(broken, fixed))


def wrong_edit(task: Task, seed: int) -> str:
    """A call that changes the fault's line into something plausible that is neither right nor the same."""
    broken, fixed = fault_lines(task)
    choices = sorted(set(_wrong_lines(broken)) - {broken, fixed})
    if not choices:
        choices = [broken + " "]
    chosen = random.Random(f"{task.id}:{seed}").choice(choices)
    return render_fix(*shortest_edit(broken, chosen))


def fault_lines(task: Task) -> tuple[str, str]:
    """The fault's line as it is and as it should be, without indentation."""
    body = split_patch(task.gold_patch)[0].text.split("\n@@", 1)[1].split("\n")[1:]
    removed = [line[1:].strip() for line in body if line.startswith("-")]
    added = [line[1:].strip() for line in body if line.startswith("+")]
    if len(removed) != 1 or len(added) != 1:
        raise NotImplementedError(f"task {task.id}: no scripted solver for a repair of more than one line")
    return removed[0], added[0]


def _wrong_lines(line: str) -> Iterator[str]:
    for match in OPERATORS.finditer(line):
        for other in WRONG[match[0]]:
            yield line[: match.start()] + other + line[match.end() :]


def shortest_edit(before: str, after: str) -> tuple[str, str]:
    """Few whole tokens (old, new) such that replacing old, which occurs once, turns `before` into `after`."""
    old, new = TOKEN.findall(before), TOKEN.findall(after)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    while True:
        text = "".join(old[first : len(old) - last]), "".join(new[first : len(new) - last])
        if text[0].strip() and replace_in_line(before, "|".join(text))[0] == after:
            return text
        first, last = (first, last - 1) if last > 0 else (first - 1, last)
        if first < 0:
            return before, after
