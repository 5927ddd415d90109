"""The `cli` agent: a program run as it would be by hand, in a home of its own, and ended at its deadline."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sweyard_sandbox.agents.cli.agent import CliAgent
from sweyard_sandbox.agents.cli.template import TemplateError, shell_command
from sweyard_sandbox.agents.protocol import AgentEnd, Endpoint, Message, Reply, Turn
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

TELL = """\
import json, os, sys
names = ["HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "EXTRA"]
home = {path: open(os.path.join(os.environ["HOME"], path)).read() for path in (".rc/settings.json", "prompt")}
print(json.dumps([sys.argv[1:], {name: os.environ[name] for name in names}, home, sys.stdin.read()]))
"""


@dataclass
class Session:
    """Reached at an address where nobody listens."""

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        raise AssertionError("the program speaks for itself")

    async def endpoint(self, sandbox: Sandbox) -> Endpoint:
        return Endpoint("http://127.0.0.1:9", "secret")


async def only_turn(agent: CliAgent, task: Task, sandbox: Sandbox) -> Turn:
    (turn,) = [turn async for turn in agent.run(task, Session(), sandbox)]
    return turn


async def test_program_is_told_what_it_needs(task: Task, sandbox: Sandbox) -> None:
    await sandbox.write("/tmp/tell.py", TELL.encode())
    problem = '--help \'"$(id)" {url}\nis wrong'
    agent = CliAgent(
        ["python3", "/tmp/tell.py", "{prompt}", "--to={prompt_file}", "{unknown:1}"],
        60.0,
        {"EXTRA": "{directory}:{model}"},
        {".rc/settings.json": '{"url": "{url}", "more": {"a": 1}}'},
    )

    turn = await only_turn(agent, task.model_copy(update={"problem_statement": problem}), sandbox)

    assert turn.end is AgentEnd.FINISHED
    words, variables, home, standard_input = json.loads(turn.observation.rsplit("\n[exit code 0]", 1)[0])
    assert words[0] == home["prompt"]
    assert problem in words[0]
    assert words[1:] == ["--to=/tmp/sweyard-agent/prompt", "{unknown:1}"]
    assert variables == {
        "HOME": "/tmp/sweyard-agent",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "secret",
        "OPENAI_MODEL": "policy",
        "EXTRA": "/testbed:policy",
    }
    assert json.loads(home[".rc/settings.json"]) == {"url": "http://127.0.0.1:9", "more": {"a": 1}}
    assert standard_input == ""


ENDS = {
    "success": ("echo fine", 60.0, AgentEnd.FINISHED, "fine\n[exit code 0]"),
    "failure": ("echo sorry; exit 3", 60.0, AgentEnd.ERROR, "sorry\n[exit code 3]"),
    "no such program": ("/nowhere/qwen", 60.0, AgentEnd.ERROR, "[exit code 127]"),
    "deadline": ("echo begun; trap '' TERM; sleep 60", 6.0, AgentEnd.TIMEOUT, "begun\n[stopped at its deadline]"),
}


@pytest.mark.parametrize(("script", "seconds", "end", "output"), ENDS.values(), ids=ENDS)
async def test_how_it_ended_is_told_and_its_output_kept(
    task: Task, sandbox: Sandbox, script: str, seconds: float, end: AgentEnd, output: str
) -> None:
    turn = await only_turn(CliAgent(["sh", "-c", script], seconds), task, sandbox)

    assert turn.end is end
    assert turn.observation.endswith(output)


async def test_its_children_end_at_its_deadline_too(task: Task, sandbox: Sandbox) -> None:
    script = "(sleep 61 &) ; setsid sleep 62 & sleep 63"

    turn = await only_turn(CliAgent(["sh", "-c", script], 6.0), task, sandbox)
    left = await sandbox.run("ps -eo args | grep '[s]leep 6'", timeout_seconds=60.0)

    assert (turn.end, left.text) == (AgentEnd.TIMEOUT, "")


async def test_a_session_that_no_program_can_call_is_a_failure_of_infrastructure(task: Task, sandbox: Sandbox) -> None:
    class Private:
        async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Any: ...

    with pytest.raises(InfrastructureError, match="needs a gateway that its sandbox can reach"):
        _ = [turn async for turn in CliAgent(["true"], 60.0).run(task, Private(), sandbox)]


def test_an_unknown_placeholder_is_told_at_once() -> None:
    with pytest.raises(TemplateError, match=r"there is no placeholder \{promt\}"):
        CliAgent(["qwen", "{promt}"], 60.0)


def test_words_are_never_split_again() -> None:
    assert shell_command(["a b", "{x}"], {"x": "'; rm -rf / #{y}"}) == """'a b' ''"'"'; rm -rf / #{y}'"""
