"""The `r2e` agent: file_editor, execute_bash, search, finish."""

from collections.abc import AsyncIterator
from functools import partial

from sweyard_sandbox.agents.loop import Act, Limits, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, Turn
from sweyard_sandbox.agents.r2e.prompt import first_messages
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class R2eAgent:
    """Works in free text with XML-like calls."""

    def __init__(self, limits: Limits, *, step_timeout_seconds: float) -> None:
        self.limits = limits
        self.step_timeout_seconds = step_timeout_seconds

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Prompt, then one call a turn until `finish`."""
        act = self._act(task, sandbox)
        async for turn in converse(first_messages(task), session, act, self.limits):
            yield turn

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """There is no script for free exploration."""
        raise NotImplementedError("agent.type r2e has no scripted solver; warm up from a data set of trajectories")

    def _act(self, task: Task, sandbox: Sandbox) -> Act:
        seconds = self.step_timeout_seconds
        tools: dict[str, Tool] = {
            "file_editor": FileEditor(sandbox, task.working_directory),
            "execute_bash": partial(execute_bash, sandbox=sandbox, timeout_seconds=seconds),
            "search": partial(search, sandbox=sandbox, timeout_seconds=seconds),
        }
        return act_with(tools)
