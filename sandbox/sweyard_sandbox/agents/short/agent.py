"""The `short` agent: one-line calls that a model of a million parameters can write, applied in a real sandbox.

It is told the file, the function and the line of the fault: perfect fault localisation, as is usual for small repair
models. What it must find is the repair, and the text of its edit is free.
"""

from collections.abc import AsyncIterator

from sweyard_sandbox.agents.loop import Limits, Step, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, Turn
from sweyard_sandbox.agents.short.demonstrate import right_edit, wrong_edit
from sweyard_sandbox.agents.short.language import (
    OK,
    UNKNOWN_CALL,
    Done,
    Edit,
    parse_call,
    render_prompt,
    replace_in_line,
)
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class ShortAgent:
    """Edits single lines of the fault's file."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Prompt, then a call a turn."""
        path = f"{task.working_directory}/{task.context.get('path', '')}"

        async def act(reply: str) -> Step:
            call = parse_call(reply)
            if isinstance(call, Done):
                return Step("done", finished=True)
            if isinstance(call, Edit):
                line = call.line if call.line is not None else int(task.context["line"])
                return Step("edit", await apply_edit(path, line, call.halves, sandbox))
            return Step("", UNKNOWN_CALL)

        async for turn in converse([Message("user", render_prompt(task))], session, act, self.limits):
            yield turn

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """Edit and done, with the observations of a real run."""
        edit = right_edit(task) if correct else wrong_edit(task, seed)
        return [
            Message("user", render_prompt(task)),
            Message("assistant", edit),
            Message("user", OK),
            Message("assistant", "done"),
        ]


async def apply_edit(path: str, line: int, halves: str, sandbox: Sandbox) -> str:
    """Change one line of a file in the sandbox; says what came of it."""
    try:
        text = (await sandbox.read(path)).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return "the file is gone"
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return f"no line {line}"
    changed, said = replace_in_line(lines[line - 1], halves)
    if changed != lines[line - 1]:
        lines[line - 1] = changed
        await sandbox.write(path, "\n".join(lines).encode("utf-8", "surrogateescape"))
    return said
