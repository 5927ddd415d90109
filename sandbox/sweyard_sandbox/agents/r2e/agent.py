"""The `r2e` agent: file_editor, execute_bash, search, finish; told of in the prompt, or by the chat template."""

from functools import partial

from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Act
from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.tools import offered
from sweyard_sandbox.agents.tools.act import Tool, act_with
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.agents.tools.file_editor import FileEditor
from sweyard_sandbox.agents.tools.prompt import BASH, FILE_EDITOR, MALFORMED_NATIVE, SEARCH, brief, native_brief
from sweyard_sandbox.agents.tools.search import search
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

LAST_STEP = "You have reached the maximum number of steps. Please submit your answer NOW."


class R2eAgent(FreeAgent):
    """Works in free text with XML-like calls, or in those that the model was trained to write."""

    type = "r2e"

    def first_messages(self, task: Task) -> list[Message]:
        """What it is told."""
        if self.native_calls:
            return native_brief(task)
        return brief(task, (FILE_EDITOR, BASH, SEARCH))

    def offered(self) -> str:
        """See FreeAgent."""
        if not self.native_calls:
            return ""
        return offered.offer(offered.FILE_EDITOR, offered.BASH, offered.SEARCH, offered.FINISH)

    def remind(self, turns_left: int) -> str:
        """As the agents were told that DeepSWE was trained with (rllm 0.2, agents/swe_agent.py)."""
        return f"\nSteps Remaining: {turns_left}" if turns_left > 1 else f"\n{LAST_STEP}"

    def act(self, task: Task, sandbox: Sandbox) -> Act:
        """One call a turn."""
        seconds = self.step_timeout_seconds
        tools: dict[str, Tool] = {
            "file_editor": FileEditor(sandbox, task.working_directory),
            "execute_bash": partial(execute_bash, sandbox=sandbox, timeout_seconds=seconds),
            "search": partial(search, sandbox=sandbox, timeout_seconds=seconds),
        }
        if self.native_calls:
            return act_with(tools, answers="tool", malformed=MALFORMED_NATIVE)
        return act_with(tools)
