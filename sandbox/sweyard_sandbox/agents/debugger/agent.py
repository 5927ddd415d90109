"""The `pdb` agent: file_editor, search, pdb, finish, and execute_bash where it is given a shell."""

from collections.abc import AsyncIterator
from functools import partial

from sweyard_sandbox.agents.debugger.prompt import first_messages
from sweyard_sandbox.agents.debugger.tool import Debugger
from sweyard_sandbox.agents.loop import Act, Limits, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, Turn
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class PdbAgent:
    """Works with a debugger."""

    def __init__(self, limits: Limits, *, step_timeout_seconds: float, shell: bool) -> None:
        self.limits = limits
        self.step_timeout_seconds = step_timeout_seconds
        self.shell = shell

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Prompt, then one call a turn until `finish`. A debugger that is left running ends with its sandbox."""
        messages = first_messages(task, shell=self.shell)
        async for turn in converse(messages, session, self._act(task, sandbox), self.limits):
            yield turn

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """There is no script for free exploration."""
        raise NotImplementedError("agent.type pdb has no scripted solver; warm up from a data set of trajectories")

    def _act(self, task: Task, sandbox: Sandbox) -> Act:
        tools: dict[str, Tool] = {
            "file_editor": FileEditor(sandbox, task.working_directory),
            "search": partial(search, sandbox=sandbox, timeout_seconds=self.step_timeout_seconds),
            "pdb": Debugger(sandbox, task.working_directory, timeout_seconds=self.step_timeout_seconds),
        }
        if self.shell:
            tools["execute_bash"] = partial(execute_bash, sandbox=sandbox, timeout_seconds=self.step_timeout_seconds)
        return act_with(tools)
