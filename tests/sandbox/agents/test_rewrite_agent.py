"""The `rewrite` agent: lines replaced by number in a real sandbox, and every way to name them wrongly."""

import pytest
from tests.sandbox.agents.conftest import BROKEN, CLEAN, ScriptedSession
from tests.sandbox.agents.written_calls import call

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.protocol import AgentEnd, Turn
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.agents.tools.prompt import MALFORMED
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


async def play(task: Task, sandbox: Sandbox, *replies: str, shell: bool = False) -> list[Turn]:
    agent = make_agent(AgentSpec(type="rewrite", shell=shell, max_turns=10, step_timeout_seconds=60))
    return [turn async for turn in agent.run(task, ScriptedSession([*replies, call("finish")]), sandbox)]


def rewrite(new_code: str, path: str = "pkg/text.py", **place: str) -> str:
    return call("rewrite", path=path, new_code=new_code, **place)


async def test_repair_by_rewriting_lines(task: Task, sandbox: Sandbox) -> None:
    await sandbox.run("chmod 755 pkg/text.py", timeout_seconds=60)
    turns = await play(
        task,
        sandbox,
        call("view", path="pkg/text.py", view_range="[2, 2]"),
        rewrite("    if False:\n        pass\n    if len(a) < len(b) and a:", start="2"),
        rewrite("", start="2", end="3"),
        rewrite("x = 1", path="pkg/new.py"),
        call("execute_bash", cmd="stat -c %a pkg/text.py; cat pkg/new.py"),
        shell=True,
    )

    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN
    assert turns[0].observation == "     2\t    if len(a) < len(b) or a:"
    assert "-    if len(a) < len(b) or a:\n+    if False:\n" in turns[1].observation
    assert turns[4].observation == "755\nx = 1"
    assert [turn.call for turn in turns] == ["view", "rewrite", "rewrite", "rewrite", "execute_bash", "finish"]
    assert turns[-1].end is AgentEnd.FINISHED


async def test_whole_file_is_rewritten_where_no_line_is_named(task: Task, sandbox: Sandbox) -> None:
    await play(task, sandbox, rewrite(CLEAN.rstrip("\n")))

    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("no call", MALFORMED),
        (call("execute_bash", cmd="ls"), "no tool `execute_bash`; use one of view, search, rewrite, finish"),
        (call("rewrite", path="pkg/text.py"), "parameter `new_code` is missing"),
        (call("rewrite", new_code="x"), "parameter `path` is missing"),
        (rewrite("x", start="0"), "must be lines of the file, from 1 to 5"),
        (rewrite("x", start="3", end="2"), "must be lines of the file"),
        (rewrite("x", start="2", end="9"), "must be lines of the file"),
        (rewrite("x", start="two"), "must be a whole number"),
        (rewrite("x", path="pkg/none.py", start="1"), "does not exist"),
        (rewrite("x", path="pkg"), "is a directory"),
        (rewrite("x", path="pkg/text.py/x"), "is a file"),
        (rewrite(BROKEN), "is as it was"),
        (call("search", search_term="len(b)"), "pkg/text.py:2:"),
    ],
)
async def test_call_is_answered_in_words_and_changes_nothing(
    task: Task, sandbox: Sandbox, reply: str, said: str
) -> None:
    turns = await play(task, sandbox, reply)

    assert said in turns[0].observation
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == BROKEN
    assert turns[1].end is AgentEnd.FINISHED
