"""The `bash` agent: one fenced command a turn, handed in by a command that prints the sentinel.

Conventions of mini-swe-agent: each command runs in a shell of its own; exactly one block, else nothing is run; the
work is handed in when the first line that a successful command prints is the sentinel.
"""

import re

from sweyard_sandbox.agents.bash.prompt import NOT_ONE_BLOCK, SENTINEL, first_messages
from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Act, Step
from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.tools.arguments import ToolError
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

BEGIN = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*")
END = re.compile(r"```[ \t]*")


def blocks(reply: str) -> list[str]:
    """Commands of all complete fenced blocks, in order."""
    commands: list[str] = []
    inside: list[str] | None = None
    for line in reply.replace("\r\n", "\n").split("\n"):
        if inside is None:
            inside = [] if BEGIN.fullmatch(line) else None
        elif END.fullmatch(line):
            commands.append("\n".join(inside).strip("\n"))
            inside = None
        else:
            inside.append(line)
    return commands


def hands_in(output: str) -> bool:
    """True if the first line is the sentinel, and no failure is noted below it."""
    lines = output.split("\n")
    return lines[0].strip() == SENTINEL and not lines[-1].startswith("[exit code")


class BashAgent(FreeAgent):
    """Works in a shell alone."""

    type = "bash"

    def first_messages(self, task: Task) -> list[Message]:
        """What it is told."""
        return first_messages(task)

    def act(self, task: Task, sandbox: Sandbox) -> Act:
        """One command a turn until the sentinel."""

        async def act(reply: str) -> Step:
            commands = blocks(reply)
            if len(commands) != 1:
                return Step("", NOT_ONE_BLOCK.format(count=len(commands)))
            try:
                output = await execute_bash({"cmd": commands[0]}, sandbox, timeout_seconds=self.step_timeout_seconds)
            except ToolError as error:
                return Step("", f"[{error}.]")
            return Step("submit", finished=True) if hands_in(output) else Step("bash", output)

        return act
