"""The `rewrite` agent: view, search, rewrite, finish, and execute_bash where it is given a shell."""

from collections.abc import AsyncIterator
from functools import partial

from sweyard_sandbox.agents.loop import Act, Limits, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, Turn
from sweyard_sandbox.agents.rewrite.prompt import first_messages
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.arguments import Arguments
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class RewriteAgent:
    """Works by reading and rewriting lines."""

    def __init__(self, limits: Limits, *, step_timeout_seconds: float, shell: bool) -> None:
        self.limits = limits
        self.step_timeout_seconds = step_timeout_seconds
        self.shell = shell

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Prompt, then one call a turn until `finish`."""
        messages = first_messages(task, shell=self.shell)
        async for turn in converse(messages, session, self._act(task, sandbox), self.limits):
            yield turn

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """There is no script for free exploration."""
        raise NotImplementedError("agent.type rewrite has no scripted solver; warm up from a data set of trajectories")

    def _act(self, task: Task, sandbox: Sandbox) -> Act:
        editor, seconds = FileEditor(sandbox, task.working_directory), self.step_timeout_seconds

        async def view(arguments: Arguments) -> str:
            return await editor({**arguments, "command": "view"})

        tools: dict[str, Tool] = {
            "view": view,
            "search": partial(search, sandbox=sandbox, timeout_seconds=seconds),
            "rewrite": editor.rewrite,
        }
        if self.shell:
            tools["execute_bash"] = partial(execute_bash, sandbox=sandbox, timeout_seconds=seconds)
        return act_with(tools)
