"""The `pdb` agent: file_editor, search, pdb, finish, and execute_bash where it is given a shell."""

from functools import partial

from sweyard_sandbox.agents.debugger.prompt import PDB
from sweyard_sandbox.agents.debugger.tool import Debugger
from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Act
from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.prompt import BASH, FILE_EDITOR, SEARCH, brief
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class PdbAgent(FreeAgent):
    """Works with a debugger; one that is left running ends with its sandbox."""

    type = "pdb"

    def first_messages(self, task: Task) -> list[Message]:
        """What it is told."""
        return brief(task, (FILE_EDITOR, SEARCH, PDB, *([BASH] if self.shell else [])))

    def act(self, task: Task, sandbox: Sandbox) -> Act:
        """One call a turn."""
        seconds = self.step_timeout_seconds
        tools: dict[str, Tool] = {
            "file_editor": FileEditor(sandbox, task.working_directory),
            "search": partial(search, sandbox=sandbox, timeout_seconds=seconds),
            "pdb": Debugger(sandbox, task.working_directory, timeout_seconds=seconds),
        }
        if self.shell:
            tools["execute_bash"] = partial(execute_bash, sandbox=sandbox, timeout_seconds=seconds)
        return act_with(tools)
