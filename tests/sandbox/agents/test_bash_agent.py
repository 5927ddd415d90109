"""The `bash` agent: commands in a real sandbox, and every way not to write one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.agents.conftest import BROKEN, CLEAN, ScriptedSession

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.bash.agent import blocks
from sweyard_sandbox.agents.bash.prompt import NOT_ONE_BLOCK, SENTINEL
from sweyard_sandbox.agents.protocol import AgentEnd, Turn
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.agents.tools.observation import OBSERVATION_CHARACTERS
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

AGENT = make_agent(AgentSpec(type="bash", max_turns=8, step_timeout_seconds=20))


def fenced(command: str, language: str = "bash") -> str:
    return f"I will look.\n\n```{language}\n{command}\n```\n"


SUBMIT = fenced(f"echo {SENTINEL}")


async def play(task: Task, sandbox: Sandbox, *replies: str | None, max_turns: int = 8) -> list[Turn]:
    agent = make_agent(AgentSpec(type="bash", max_turns=max_turns, step_timeout_seconds=20))
    return [turn async for turn in agent.run(task, ScriptedSession(replies), sandbox)]


async def test_repair_by_commands_that_keep_nothing_but_files(task: Task, sandbox: Sandbox) -> None:
    turns = await play(
        task,
        sandbox,
        fenced("cd pkg && export X=1 && sed -i 's/ or a/ and a/' text.py && cat text.py"),
        fenced('pwd\necho "[$X]"'),
        fenced(f"echo {SENTINEL}; false"),
        SUBMIT,
    )

    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN
    assert [(turn.call, turn.observation, turn.end) for turn in turns] == [
        ("bash", CLEAN.rstrip("\n"), None),
        ("bash", "/testbed\n[]", None),
        ("bash", f"{SENTINEL}\n[exit code 1]", None),
        ("submit", "", AgentEnd.FINISHED),
    ]


@pytest.mark.parametrize(
    ("reply", "call", "said"),
    [
        ("no command", "", NOT_ONE_BLOCK.format(count=0)),
        ("```bash\nrm -rf pkg", "", NOT_ONE_BLOCK.format(count=0)),
        ("```python\nprint(1)\n```", "", NOT_ONE_BLOCK.format(count=0)),
        (fenced("rm -rf pkg") + fenced("ls"), "", NOT_ONE_BLOCK.format(count=2)),
        ("```bash\n" * 20_000, "", NOT_ONE_BLOCK.format(count=0)),
        (fenced("  "), "", "is missing"),
        (fenced("echo '\0'"), "", "NUL"),
        (fenced("echo out; echo err >&2; exit 3"), "bash", "out\nerr\n[exit code 3]"),
        (fenced("true"), "bash", "[no output]"),
        (fenced("cat <<'X'\n  ```\nX"), "bash", "  ```"),
        (fenced(f"echo now: {SENTINEL}"), "bash", f"now: {SENTINEL}"),
    ],
)
async def test_reply_is_carried_out_or_told(task: Task, sandbox: Sandbox, reply: str, call: str, said: str) -> None:
    turns = await play(task, sandbox, reply, SUBMIT)

    assert turns[0].call == call
    assert said in turns[0].observation
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == BROKEN
    assert turns[1].end is AgentEnd.FINISHED


async def test_limits_end_an_attempt_and_shorten_what_is_shown(task: Task, sandbox: Sandbox) -> None:
    long, last = await play(task, sandbox, fenced("seq 1 100000"), fenced("true"), max_turns=2)
    (truncated,) = await play(task, sandbox, None)

    assert long.observation.startswith("1\n2\n")
    assert long.observation.endswith("\n100000")
    assert len(long.observation) < OBSERVATION_CHARACTERS + 100
    assert (last.end, truncated.end) == (AgentEnd.MAX_TURNS, AgentEnd.TRUNCATED)


async def test_command_that_takes_too_long_is_stopped(task: Task, sandbox: Sandbox) -> None:
    agent = make_agent(AgentSpec(type="bash", step_timeout_seconds=1))

    turns = [turn async for turn in agent.run(task, ScriptedSession([fenced("sleep 60"), SUBMIT]), sandbox)]

    assert turns[0].observation == "[the command was stopped after 1 s]"


def test_agent_without_a_script_says_so(task: Task) -> None:
    with pytest.raises(NotImplementedError, match=r"agent\.type bash has no scripted solver"):
        AGENT.scripted(task, correct=True, seed=0)


COMMANDS = st.text(st.sampled_from("ab `'\n$#"), min_size=1).filter(lambda text: "```" not in text)


@given(st.text(), COMMANDS, st.sampled_from(["bash", "sh", "mswea_bash_command"]))
def test_written_command_is_read_back(words: str, command: str, language: str) -> None:
    reply = f"{words.replace('`', '')}\n```{language}\n{command}\n```"

    assert blocks(reply) == [command.strip("\n")]
