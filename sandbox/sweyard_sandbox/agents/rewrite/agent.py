"""The `rewrite` agent: view, search, rewrite, finish, and execute_bash where it is given a shell."""

from functools import partial

from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Act
from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.rewrite.prompt import REWRITE, VIEW
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.arguments import Arguments
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.prompt import BASH, SEARCH, brief
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class RewriteAgent(FreeAgent):
    """Works by reading and rewriting lines."""

    type = "rewrite"

    def first_messages(self, task: Task) -> list[Message]:
        """What it is told."""
        return brief(task, (VIEW, SEARCH, REWRITE, *([BASH] if self.shell else [])), check="look at your change")

    def act(self, task: Task, sandbox: Sandbox) -> Act:
        """One call a turn."""
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
