"""The `r2e` agent: each tool in a real sandbox, and every way to call it wrongly."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.agents.conftest import BROKEN, CLEAN, ScriptedSession
from tests.sandbox.agents.written_calls import call, render_call

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import AgentEnd, FinishReason, Message, Reply, Turn
from sweyard_sandbox.agents.r2e.agent import LAST_STEP, R2eAgent
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.agents.tools.calls import Call, parse_calls
from sweyard_sandbox.agents.tools.file_editor import COMMANDS
from sweyard_sandbox.agents.tools.observation import OBSERVATION_CHARACTERS, shorten
from sweyard_sandbox.agents.tools.offered import FILE_EDITOR
from sweyard_sandbox.agents.tools.prompt import FIRST_ONLY, MALFORMED
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

AGENT = make_agent(AgentSpec(type="r2e", max_turns=10, step_timeout_seconds=2))
FINISH = "<function=finish></function>"


async def play(task: Task, sandbox: Sandbox, *replies: str | None) -> list[Turn]:
    return [turn async for turn in AGENT.run(task, ScriptedSession([*replies, FINISH]), sandbox)]


def edit(command: str, path: str = "pkg/text.py", **arguments: str) -> str:
    return call("file_editor", command=command, path=path, **arguments)


async def test_repair_by_editing_and_undoing(task: Task, sandbox: Sandbox) -> None:
    turns = await play(
        task,
        sandbox,
        edit("str_replace", "/testbed/pkg/text.py", old_str=" or a", new_str=" and a"),
        edit("insert", insert_line="0", new_str="# first"),
        edit("undo_edit"),
        edit("create", "pkg/new/file.py", file_text="x = 1\n"),
    )

    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN
    assert await sandbox.read("/testbed/pkg/new/file.py") == b"x = 1\n"
    assert "     2\t    if len(a) < len(b) and a:" in turns[0].observation
    assert "     1\t# first" in turns[1].observation
    assert turns[-1].end is AgentEnd.FINISHED


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("no call", MALFORMED),
        ("<function=execute_bash><parameter=cmd>ls", MALFORMED),
        (call("python", code="1"), "[There is no tool `python`"),
        (call("execute_bash"), "parameter `cmd` is missing"),
        (call("execute_bash", cmd="echo out; echo err >&2; exit 3"), "out\nerr\n[exit code 3]"),
        (call("execute_bash", cmd="true"), "[no output]"),
        (call("execute_bash", cmd="cat"), "[no output]"),
        (call("execute_bash", cmd="sleep 30"), "[the command was stopped after 2 s]"),
        (call("search", search_term="len(b)"), "pkg/text.py:2:"),
        (call("search", search_term="not there"), "No line in . has that text."),
        (call("search", search_term="x", path="nowhere"), "nowhere"),
        (call("search"), "parameter `search_term` is missing"),
        (call("search", search_term="a\0b"), "no NUL character"),
        (call("search", search_term="a", path="b\0"), "no NUL character"),
        (edit("view", view_range=f"[1, {'9' * 5_000}]"), "must be a whole number"),
        (edit("view", view_range="[2, 2]"), "     2\t    if len(a)"),
        (edit("view", view_range="[4, 2]"), "must lie within"),
        (edit("view", view_range="all"), "must be [first line, last line]"),
        (edit("view", "pkg"), "/testbed/pkg/text.py"),
        (edit("view", "absent.py"), "does not exist"),
        (edit("view", "pkg/text.py/inner"), "is a file"),
        (edit("create", file_text="x"), "exists"),
        (edit("create", "new.py"), "parameter `file_text` is missing"),
        (edit("str_replace", old_str="a", new_str="b"), "occurs 5 times"),
        (edit("str_replace", old_str="zzz", new_str="b"), "does not occur"),
        (edit("str_replace", old_str="", new_str="b"), "is empty"),
        (edit("insert", insert_line="99", new_str="b"), "must be between 0 and 5"),
        (edit("insert", insert_line="one", new_str="b"), "must be a whole number"),
        (edit("undo_edit"), "no edit"),
        (edit("delete"), "unknown command 'delete'"),
        (call("file_editor", path="x"), "parameter `command` is missing"),
    ],
)
async def test_tool_answers_in_words(task: Task, sandbox: Sandbox, reply: str, said: str) -> None:
    turns = await play(task, sandbox, reply)

    assert said in turns[0].observation
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == BROKEN
    assert turns[1].end is AgentEnd.FINISHED


NATIVE = {
    "hermes": (
        '<tool_call>\n{"name": "file_editor", "arguments": {"path": "a", "view_range": [1, 5]}}\n</tool_call>',
        [Call("file_editor", {"path": "a", "view_range": "[1, 5]"})],
    ),
    "qwen3-coder": (
        "<tool_call>\n<function=search>\n<parameter=search_term>\nx\n</parameter>\n</function>\n</tool_call>",
        [Call("search", {"search_term": "x"})],
    ),
    "braces and tags in a value": (
        '<tool_call>{"name": "a", "arguments": {"b": "{}</tool_call"}}</tool_call>',
        [Call("a", {"b": "{}</tool_call"})],
    ),
    "two, one of them broken": (
        '<tool_call>{"name": }</tool_call><tool_call>{"name": "finish"}</tool_call>',
        [Call("finish")],
    ),
    "both forms": (f'<tool_call>{{"name": "a"}}</tool_call>{FINISH}', [Call("finish")]),
    "arguments encoded twice": (
        '<tool_call>{"name": "a", "arguments": "{\\"b\\": \\"c\\"}"}</tool_call>',
        [Call("a", {"b": "c"})],
    ),
    "half of a character": ('<tool_call>{"name": "a", "arguments": {"b": "\\ud83d"}}</tool_call>', []),
    "no number": ('<tool_call>{"name": "a", "arguments": {"b": NaN}}</tool_call>', []),
    "a beginning again and again": ("<function=a>" * 20_000 + "</tool_call>" * 2 + "<tool_call>" * 20_000, []),
    "arguments that are no object": ('<tool_call>{"name": "a", "arguments": [1]}</tool_call>', []),
}


@pytest.mark.parametrize(("reply", "calls"), NATIVE.values(), ids=NATIVE)
def test_calls_in_the_form_that_a_model_was_trained_with_are_read(reply: str, calls: list[Call]) -> None:
    assert parse_calls(reply) == calls


async def test_second_call_of_a_reply_is_left_out_and_told(task: Task, sandbox: Sandbox) -> None:
    turns = await play(task, sandbox, call("execute_bash", cmd="echo 1") + call("execute_bash", cmd="touch made"))

    assert turns[0].observation.startswith(f"{FIRST_ONLY}1\nSteps Remaining: ")
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/testbed/made")


async def test_turns_that_are_left_are_told(task: Task, sandbox: Sandbox) -> None:
    agent = R2eAgent(Limits(max_turns=3, timeout_seconds=60.0), step_timeout_seconds=2.0)
    session = ScriptedSession([call("execute_bash", cmd="echo 1")] * 2 + [FINISH])
    turns = [turn async for turn in agent.run(task, session, sandbox)]

    assert [turn.observation for turn in turns] == ["1\nSteps Remaining: 2", f"1\n{LAST_STEP}", ""]
    assert session.shown[-1][-1].content == turns[1].observation


class OfferingSession(ScriptedSession):
    """One of a model that has a form of its own for calls."""

    tools = ""

    def offering(self, tools: str) -> "OfferingSession":
        self.tools = tools
        return self


def native(name: str, **arguments: object) -> str:
    return f"I look.\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


async def test_tools_can_be_offered_by_the_chat_template(task: Task, sandbox: Sandbox) -> None:
    agent = make_agent(AgentSpec(type="r2e", max_turns=10, step_timeout_seconds=2, native_calls=True))
    replies = [
        native("file_editor", command="view", path="pkg/text.py", view_range=[1, 1]),
        native("file_editor", command="insert", path="pkg/text.py", insert_line=0, new_str="# first"),
        "no call",
        native("finish"),
    ]
    session = OfferingSession(replies)
    turns = [turn async for turn in agent.run(task, session, sandbox)]

    assert [tool["function"]["name"] for tool in json.loads(session.tools)] == [
        "file_editor", "execute_bash", "search", "finish",
    ]  # fmt: skip
    assert (await sandbox.read("/testbed/pkg/text.py")).decode().startswith("# first\n")
    assert [message.role for message in session.shown[-1]] == [
        "system",
        "user",
        *("assistant", "tool") * 2,
        "assistant",
        "user",
    ]
    assert "<function=" not in "".join(message.content for message in session.shown[-1])
    assert "2\t" not in turns[0].observation
    assert turns[-1].end is AgentEnd.FINISHED


def test_what_is_offered_is_what_the_editor_knows() -> None:
    known = FILE_EDITOR["function"]["parameters"]["properties"]
    assert known["command"]["description"] == f"One of {', '.join(COMMANDS[:-1])} and {COMMANDS[-1]}."


async def test_long_output_keeps_both_ends(task: Task, sandbox: Sandbox) -> None:
    (turn, _) = await play(task, sandbox, call("execute_bash", cmd="seq 1 100000"))

    assert turn.observation.startswith("1\n2\n")
    assert "\n100000\nSteps Remaining: " in turn.observation
    assert len(turn.observation) < OBSERVATION_CHARACTERS + 100


async def test_model_that_does_not_answer_in_time_is_a_timeout(task: Task, sandbox: Sandbox) -> None:
    class Silent:
        async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
            await asyncio.sleep(60)
            return Reply("", FinishReason.STOP, 0)

    agent = R2eAgent(Limits(max_turns=3, timeout_seconds=0.05), step_timeout_seconds=1.0)

    assert [turn.end async for turn in agent.run(task, Silent(), sandbox)] == [AgentEnd.TIMEOUT]


@given(st.text(st.characters(exclude_characters="<\n", exclude_categories=["Cs"])), st.sampled_from(["a", "path"]))
def test_rendered_call_is_read_back(value: str, name: str) -> None:
    rendered = Call("tool", {name: f"{value}\n  {value}"})

    assert parse_calls(f"words {render_call(rendered)}") == [
        Call("tool", {name: f"{value}\n  {value}".removeprefix("\n").removesuffix("\n")})
    ]


@given(st.text(max_size=300), st.integers(10, 50))
def test_shortened_text_begins_and_ends_as_the_whole(text: str, limit: int) -> None:
    short = shorten(text, limit)

    assert short == text or (short[: limit // 2], short[-(limit // 2) :]) == (text[: limit // 2], text[-(limit // 2) :])
