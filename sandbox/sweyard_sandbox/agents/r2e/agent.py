"""The `r2e` agent: file_editor, execute_bash, search, finish."""

from collections.abc import AsyncIterator

from sweyard_sandbox.agents.loop import Act, Limits, Step, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, Turn
from sweyard_sandbox.agents.r2e.calls import Call, parse_calls
from sweyard_sandbox.agents.r2e.prompt import FIRST_ONLY, MALFORMED, first_messages
from sweyard_sandbox.agents.tools.arguments import ToolError
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

TOOLS = ("file_editor", "execute_bash", "search", "finish")


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
        editor = FileEditor(sandbox, task.working_directory)

        async def carry_out(call: Call) -> str:
            if call.name == "file_editor":
                return await editor(call.arguments)
            tool = execute_bash if call.name == "execute_bash" else search
            return await tool(call.arguments, sandbox, timeout_seconds=self.step_timeout_seconds)

        async def act(reply: str) -> Step:
            calls = parse_calls(reply)
            if not calls:
                return Step("", MALFORMED)
            call = calls[0]
            if call.name == "finish":
                return Step("finish", finished=True)
            if call.name not in TOOLS:
                return Step("", f"[There is no tool `{call.name[:40]}`; use one of {', '.join(TOOLS)}.]")
            note = FIRST_ONLY if len(calls) > 1 else ""
            try:
                return Step(call.name, note + await carry_out(call))
            except ToolError as error:
                return Step(call.name, f"{note}[{call.name}: {error}.]")

        return act
