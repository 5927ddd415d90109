"""The `cli` agent: any program that speaks OpenAI's or Anthropic's API, run in the sandbox until it ends.

It is installed there already (in the image, or from a volume of tools), and reaches nothing but its own session at the
gateway. Its home is a new folder, so settings that the image has for it count for nothing. One turn tells of the whole:
the conversation is the gateway's to record.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sweyard_sandbox.agents.cli.template import check_words, fill, shell_command
from sweyard_sandbox.agents.loop import EMPTY_REPLY
from sweyard_sandbox.agents.protocol import (
    AgentEnd,
    ChatSession,
    Endpoint,
    Message,
    ReachableSession,
    Turn,
    has_no_script,
)
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Result, Sandbox
from sweyard_sandbox.tasks.task import Task

HOME = "/tmp/sweyard-agent"
MODEL = "policy"
OUTPUT_CAP_BYTES = 4_000_000
OUTPUT_CHARACTERS = 20_000
"""Of its output that are kept: the end, where programs say how they ended."""
MARGIN_SECONDS = 5.0
"""The command is ended this long before the attempt, which would be cut off without its work."""
PROMPT = """\
The repository is in {directory}. This is the problem:

{problem}

Change the repository so that the problem is solved. Leave the tests alone; others will check your work.
"""


@dataclass(frozen=True, slots=True)
class CliAgent:
    """Runs `command` for each attempt; words, files and variables are templates (template.py)."""

    command: Sequence[str]
    timeout_seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Path below its home -> text."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        check_words(self.command)

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """One turn. Raises InfrastructureError where the gateway cannot be reached from the sandbox."""
        if not isinstance(session, ReachableSession):
            raise InfrastructureError(FailureReason.ERROR, "a `cli` agent needs a gateway that its sandbox can reach")
        deadline = self.clock() + self.timeout_seconds
        values = _values(task, await session.endpoint(sandbox))
        for path, text in (dict(self.files) | {"prompt": values["prompt"]}).items():
            await sandbox.write(f"{HOME}/{path}", fill(text, values).encode() if path != "prompt" else text.encode())
        began = self.clock()
        result = await sandbox.run(
            f"{shell_command(self.command, values)} </dev/null",
            timeout_seconds=max(1.0, deadline - began - MARGIN_SECONDS),
            env=self._environment(values),
            output_cap_bytes=OUTPUT_CAP_BYTES,
        )
        yield Turn(EMPTY_REPLY, "cli", _output(result), 0.0, self.clock() - began, _end(result))

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """A program says what it likes."""
        raise has_no_script("cli")

    def _environment(self, values: Mapping[str, str]) -> dict[str, str]:
        usual = {
            "HOME": HOME,
            "OPENAI_API_KEY": values["token"],
            "OPENAI_BASE_URL": f"{values['url']}/v1",
            "OPENAI_MODEL": values["model"],
            "ANTHROPIC_API_KEY": values["token"],
            "ANTHROPIC_BASE_URL": values["url"],
            "ANTHROPIC_MODEL": values["model"],
            "NO_PROXY": "*",
            "NO_COLOR": "1",
            "CI": "1",
        }
        return usual | {name: fill(text, values) for name, text in self.environment.items()}


def _values(task: Task, endpoint: Endpoint) -> dict[str, str]:
    prompt = PROMPT.format(directory=task.working_directory, problem=task.problem_statement.strip())
    return {
        "prompt": prompt,
        "prompt_file": f"{HOME}/prompt",
        "home": HOME,
        "directory": task.working_directory,
        "url": endpoint.url,
        "token": endpoint.token,
        "model": MODEL,
    }


def _end(result: Result) -> AgentEnd:
    if result.timed_out:
        return AgentEnd.TIMEOUT
    return AgentEnd.FINISHED if result.exit_code == 0 else AgentEnd.ERROR


def _output(result: Result) -> str:
    ending = "stopped at its deadline" if result.timed_out else f"exit code {result.exit_code}"
    return f"{result.text[-OUTPUT_CHARACTERS:].rstrip()}\n[{ending}]"
