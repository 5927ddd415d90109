"""The `short` agent: calls, malformed calls, and demonstrations that match what a real run says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.agents.conftest import CLEAN, ScriptedSession

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.protocol import AgentEnd, Message, Turn
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.agents.short.demonstrate import shortest_edit, wrong_edit
from sweyard_sandbox.agents.short.language import (
    OK,
    UNKNOWN_CALL,
    Done,
    Edit,
    parse_call,
    render_prompt,
    replace_in_line,
)
from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

AGENT = make_agent(AgentSpec(type="short", max_turns=4))


async def play(task: Task, sandbox: Sandbox, *replies: str | None) -> tuple[list[Turn], ScriptedSession]:
    session = ScriptedSession(replies)
    return [turn async for turn in AGENT.run(task, session, sandbox)], session


@pytest.mark.parametrize("call", ["edit 2|or|and", "fix or|and"])
async def test_right_edit_repairs_the_file(task: Task, sandbox: Sandbox, call: str) -> None:
    turns, _ = await play(task, sandbox, call, "done")

    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN
    assert [(turn.call, turn.observation, turn.end) for turn in turns] == [
        ("edit", OK, None),
        ("done", "", AgentEnd.FINISHED),
    ]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", UNKNOWN_CALL),
        ("repair it", UNKNOWN_CALL),
        ("edit 2|or", UNKNOWN_CALL),
        ("edit two|or|and", UNKNOWN_CALL),
        ("edit 2|or|and\nedit 2|a|b", UNKNOWN_CALL),
        ("edit 9999999|a|b", "no line 9999999"),
        ("edit 0|a|b", "no line 0"),
        ("edit 2|a|c", "old text is in 2 places"),
        ("edit 2||c", "old text is in 0 places"),
        ("edit 2|absent|c", "old text is in 0 places"),
        ("fix or", UNKNOWN_CALL),
        ("fix or|and\ndone", UNKNOWN_CALL),
        ("fix a|c", "old text is in 2 places"),
        ("fix |c", "old text is in 0 places"),
    ],
)
async def test_wrong_call_is_told_and_changes_nothing(task: Task, sandbox: Sandbox, reply: str, said: str) -> None:
    before = await sandbox.read("/testbed/pkg/text.py")

    turns, session = await play(task, sandbox, reply, "done")

    assert turns[0].observation == said
    assert session.shown[1][-1] == Message("user", said)
    assert (turns[0].call == "") == (said == UNKNOWN_CALL)
    assert await sandbox.read("/testbed/pkg/text.py") == before


async def test_bar_in_the_code_is_parted_by_what_the_line_holds(task: Task, sandbox: Sandbox) -> None:
    await play(task, sandbox, "edit 4|b | a|b", "done")

    assert (await sandbox.read("/testbed/pkg/text.py")).decode().endswith("    return b\n")


async def test_turns_run_out(task: Task, sandbox: Sandbox) -> None:
    turns, _ = await play(task, sandbox, *["edit 2|x|y"] * 4)

    assert [turn.end for turn in turns] == [None, None, None, AgentEnd.MAX_TURNS]


async def test_full_context_is_truncation(task: Task, sandbox: Sandbox) -> None:
    turns, _ = await play(task, sandbox, "edit 2|or|and", None)

    assert turns[-1].end is AgentEnd.TRUNCATED


async def test_demonstration_is_word_for_word_what_a_run_shows(task: Task, sandbox: Sandbox) -> None:
    script = AGENT.scripted(task, correct=True, seed=0)

    _, session = await play(task, sandbox, *(message.content for message in script if message.role == "assistant"))

    assert [*session.shown[-1], Message("assistant", "done")] == script
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN


@pytest.mark.parametrize("seed", range(12))
async def test_wrong_demonstration_is_carried_out_and_does_not_repair(task: Task, sandbox: Sandbox, seed: int) -> None:
    script = AGENT.scripted(task, correct=False, seed=seed)

    turns, session = await play(task, sandbox, *(each.content for each in script if each.role == "assistant"))

    assert [*session.shown[-1], Message("assistant", "done")] == script
    assert turns[0].observation == OK
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() != CLEAN


def test_wrong_edits_differ_by_seed(task: Task) -> None:
    assert len({wrong_edit(task, seed) for seed in range(30)}) > 2


def test_prompt_is_short_and_marks_the_fault(task: Task) -> None:
    assert render_prompt(task).split("\n") == [
        "text.py shorter",
        "1 def shorter(a, b):",
        "2>if len(a) < len(b) or a:",
        "3 return a",
    ]


def test_task_without_context_is_refused_in_a_sentence(task: Task) -> None:
    with pytest.raises(TaskFormatError, match="use another agent"):
        render_prompt(task.model_copy(update={"context": {}}))


LINES = st.text(st.sampled_from("ab=<| not()+"), min_size=1, max_size=20).map(str.strip).filter(bool)


@given(before=LINES, after=LINES)
def test_shortest_edit_turns_one_line_into_the_other(before: str, after: str) -> None:
    if before != after:
        assert replace_in_line(before, "|".join(shortest_edit(before, after)))[0] == after


@given(st.text())
def test_any_reply_is_understood_or_refused(reply: str) -> None:
    assert isinstance(parse_call(reply), Edit | Done | None)
