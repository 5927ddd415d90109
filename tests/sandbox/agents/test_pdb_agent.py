"""The `pdb` agent: a real debugger in a real sandbox, kept over turns, edits and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.agents.conftest import BROKEN, CLEAN, ScriptedSession
from tests.sandbox.agents.written_calls import call

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.debugger.breakpoints import Breakpoint, follow, parse_list
from sweyard_sandbox.agents.debugger.entrypoint import checked, debugged
from sweyard_sandbox.agents.debugger.tool import Debugger
from sweyard_sandbox.agents.protocol import AgentEnd, Turn
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.agents.tools.arguments import ToolError
from sweyard_sandbox.agents.tools.prompt import MALFORMED
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

RUN = "python3 demo.py"
DEMO = b"from pkg.text import shorter\n\nprint('said', shorter('ab', 'c'))\n"
PATIENT_SECONDS = 120
COUNT = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx pdb"
"""Prints how many debuggers run."""


def count_once(expected: int) -> str:
    """The same, once what was killed has had time to go."""
    return f"for try in $(seq 100); do n=$({COUNT}); [ $n = {expected} ] && break; sleep 0.1; done; echo $n"


async def play(task: Task, sandbox: Sandbox, *replies: str, shell: bool = False) -> list[Turn]:
    agent = make_agent(AgentSpec(type="pdb", shell=shell, max_turns=20, step_timeout_seconds=PATIENT_SECONDS))
    await sandbox.write("/testbed/demo.py", DEMO)
    session = ScriptedSession([*replies, "<function=finish></function>"])
    return [turn async for turn in agent.run(task, session, sandbox)]


def pdb(command: str, **arguments: str) -> str:
    return call("pdb", command=command, **arguments)


async def test_session_is_kept_and_breakpoints_follow_an_edit(task: Task, sandbox: Sandbox) -> None:
    turns = await play(
        task,
        sandbox,
        pdb("b pkg/text.py:2, a == 'ab'", entrypoint=RUN),
        pdb("c"),
        pdb("p len(a), len(b)"),
        call("file_editor", command="str_replace", path="pkg/text.py", old_str=" or a", new_str=" and a"),
        call("file_editor", command="insert", path="pkg/text.py", insert_line="0", new_str="# first\n# second"),
        pdb("c"),
        call("file_editor", command="undo_edit", path="pkg/text.py"),
        pdb("q"),
        pdb("c"),
    )

    said = [turn.observation for turn in turns]
    assert "Breakpoint 1 at /testbed/pkg/text.py:2" in said[0]
    assert "/testbed/pkg/text.py(2)shorter()" in said[1]
    assert "  2 B->\t    if len(a) < len(b) or a:" in said[1]
    assert said[2] == "(2, 1)"
    assert said[5].startswith("[the debugger was restarted, since files were changed]")
    assert "[1 of 1 breakpoints are set again" in said[5]
    assert "/testbed/pkg/text.py(4)shorter()" in said[5]
    assert said[7].endswith("[the debugger has quit; breakpoints are kept]")
    assert "/testbed/pkg/text.py(2)shorter()" in said[8]
    assert [turn.call for turn in turns[:3]] == ["pdb"] * 3
    assert turns[-1].end is AgentEnd.FINISHED
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == CLEAN


async def test_edits_by_the_shell_count_and_lost_lines_take_their_breakpoints(task: Task, sandbox: Sandbox) -> None:
    turns = await play(
        task,
        sandbox,
        pdb("b 3", entrypoint="demo.py"),
        pdb("b pkg/text.py:3"),
        pdb("b pkg/text.py:4"),
        pdb("disable 3"),
        call("execute_bash", cmd="sed -i 3d pkg/text.py"),
        pdb("b"),
        pdb("clear"),
        shell=True,
    )

    assert "[2 of 3 breakpoints are set again" in turns[5].observation
    listed = turns[5].observation.split("Num Type")[1]
    assert "keep yes   at /testbed/demo.py:3" in listed
    assert "keep no    at /testbed/pkg/text.py:3" in listed
    assert "Deleted breakpoint 1" in turns[6].observation


async def test_debugger_that_ends_or_hangs_is_told_and_starts_again(sandbox: Sandbox) -> None:
    await sandbox.write("/testbed/demo.py", DEMO)
    debugger = Debugger(sandbox, "/testbed", timeout_seconds=PATIENT_SECONDS)

    absent = await debugger({"command": "c", "entrypoint": "python3 absent.py"})
    await debugger({"command": "b demo.py:3", "entrypoint": RUN})
    debugger.timeout_seconds = 1
    hanging = await debugger({"command": "import time; print('now'); time.sleep(600)"})
    debugger.timeout_seconds = PATIENT_SECONDS
    again = await debugger({"command": "c"})
    alive = await sandbox.run(count_once(1), timeout_seconds=60)
    dead = await debugger({"command": "import os; os._exit(3)"})

    assert "absent.py" in absent
    assert "[the debugger has ended; your next call starts it again" in absent
    assert hanging.endswith(
        "[the debugger was stopped after 1 s; your next call starts it again, breakpoints are kept]"
    )
    assert "[1 of 1 breakpoints are set again" in again
    assert "/testbed/demo.py(3)<module>()" in again
    assert "[the debugger has ended" in dead
    left = await sandbox.run(count_once(0), timeout_seconds=60)
    assert (alive.text.strip(), left.text.strip()) == ("1", "0")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("no call", MALFORMED),
        (
            call("execute_bash", cmd="ls"),
            "no tool `execute_bash`; use one of file_editor, search, pdb, finish",
        ),
        (pdb("c"), "parameter `entrypoint` is missing"),
        (call("pdb", entrypoint=RUN), "parameter `command` is missing"),
        (pdb("c", entrypoint="make test"), "must be a command of python or pytest"),
        (pdb("n ;; n", entrypoint=RUN), "must be one command"),
        (pdb("interact", entrypoint=RUN), "`interact` cannot be used"),
    ],
)
async def test_wrong_call_is_told_and_starts_nothing(task: Task, sandbox: Sandbox, reply: str, said: str) -> None:
    turns = await play(task, sandbox, reply)

    assert said in turns[0].observation
    assert (await sandbox.read("/testbed/pkg/text.py")).decode() == BROKEN
    assert turns[1].end is AgentEnd.FINISHED


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    [
        ("python -m pytest tests/test_a.py", "python -m pdb -m pytest -s tests/test_a.py"),
        ("pytest -s -k 'a b'", "python -m pdb -m pytest -s -k 'a b'"),
        ("script.py --flag", "python -m pdb script.py --flag"),
        ("A=1 .venv/bin/python3.9 -W ignore -u x.py", "env A=1 .venv/bin/python3.9 -W ignore -u -m pdb x.py"),
        ("python3 -m pdb -c continue x.py", "python3 -m pdb -c continue x.py"),
    ],
)
def test_entrypoint_is_run_under_the_debugger(entrypoint: str, command: str) -> None:
    assert debugged(entrypoint) == command


@pytest.mark.parametrize("entrypoint", ["", "python", "python -c 'x'", "python -W", "bash x.sh", "A=1", "python 'x"])
def test_entrypoint_that_cannot_be_debugged_is_refused(entrypoint: str) -> None:
    with pytest.raises(ToolError, match="entrypoint"):
        debugged(entrypoint)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (" p x ", "p x"),
        ("b pkg/a.py:3, x > 1", "b /testbed/pkg/a.py:3, x > 1"),
        ("break /other/a.py:3", "break /other/a.py:3"),
        ("b 3", "b 3"),
        ("b function", "b function"),
        ("clear a.py:3", "clear /testbed/a.py:3"),
        ("cl", "cl 1 4"),
        ("cl 1", "cl 1"),
    ],
)
def test_command_is_sent_so_that_it_asks_nothing(command: str, sent: str) -> None:
    assert checked(command, "/testbed", [1, 4]) == sent


def test_list_of_breakpoints_is_read() -> None:
    text = (
        "Num Type         Disp Enb   Where\n"
        "1   breakpoint   keep yes   at /a b/x.py:3\n\tstop only if x > 1\n\tbreakpoint already hit 1 time\n"
        "2   breakpoint   del  yes   at /a.py:4\n\tstop only if never\n"
        "12  breakpoint   keep no    at /a.py:5\n"
    )

    assert parse_list(text) == (Breakpoint(1, "/a b/x.py", 3, "x > 1"), Breakpoint(12, "/a.py", 5, "", enabled=False))
    assert parse_list("") == ()
    assert Breakpoint(1, "/a.py", 3, "x > 1").command == "b /a.py:3, x > 1"


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


@given(LINES, LINES, LINES)
def test_breakpoint_stays_on_its_line_when_others_come(above: list[str], below: list[str], new: list[str]) -> None:
    before, after = [*above, "here", *below], [*above, *new, "here", *below]

    assert follow(len(above) + 1, before, after) == len(above) + len(new) + 1
    assert follow(len(above) + len(new) + 1, after, before) == len(above) + 1


@given(LINES, LINES, st.integers(1, 12))
def test_breakpoint_never_leaves_the_file(before: list[str], after: list[str], line: int) -> None:
    moved = follow(line, before, after)

    assert moved is None or 1 <= moved <= len(after)


def test_line_that_is_replaced_keeps_its_breakpoint_and_one_that_is_removed_does_not() -> None:
    assert follow(2, ["a", "b", "c"], ["a", "x", "c"]) == 2
    assert follow(2, ["a", "b", "c"], ["a", "c"]) is None
