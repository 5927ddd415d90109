"""A user's own agent: its turns are taken, and what it does wrong is told as its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sweyard_sandbox.agents.custom import CustomAgent
from sweyard_sandbox.agents.protocol import AgentEnd, FinishReason, Message, Reply, Turn
from sweyard_sandbox.custom_code import CustomCodeError
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.tasks.task import Task

CALLED = "agent.factory: 'mine:agent'"
TASK = Task.model_construct(id="t")
FIRST = Turn(Reply("a", FinishReason.STOP, 1), call="look")
LOST = InfrastructureError(FailureReason.NODE_LOST, "gone")


class Yielding:
    """Yields what it is given, and raises what is an error."""

    def __init__(self, *steps: Any) -> None:
        self.steps = steps

    async def run(self, task: Any, session: Any, sandbox: Any) -> AsyncIterator[Any]:
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            yield step


class Returning:
    def run(self, task: Any, session: Any, sandbox: Any) -> list[Turn]:
        return [FIRST]


async def turns_of(agent: Any) -> list[Turn]:
    return [turn async for turn in CustomAgent(agent, CALLED).run(TASK, None, None)]  # type: ignore[arg-type]


async def test_its_turns_are_the_attempts() -> None:
    last = Turn(FIRST.reply, end=AgentEnd.FINISHED)
    assert await turns_of(Yielding(FIRST, last)) == [FIRST, last]


@pytest.mark.parametrize(
    ("agent", "sentence"),
    [
        pytest.param(Yielding(KeyError("x")), "failed on task 't' before its first turn: KeyError: 'x'", id="raises"),
        pytest.param(Yielding(SystemExit(0)), "failed on task 't' before its first turn: SystemExit: 0", id="exits"),
        pytest.param(
            Yielding(TimeoutError("mine")),
            "failed on task 't' before its first turn: TimeoutError: mine",
            id="own-timeout",
        ),
        pytest.param(
            Returning(), "failed on task 't' before its first turn: TypeError: .*__aiter__", id="no-generator"
        ),
        pytest.param(Yielding(FIRST, "done"), "yielded 'done'; an agent yields turns", id="no-turn"),
    ],
)
async def test_what_would_fail_at_every_task_ends_the_run_by_its_name(agent: Any, sentence: str) -> None:
    with pytest.raises(CustomCodeError, match=f"^{CALLED} {sentence}"):
        await turns_of(agent)


async def test_a_failure_between_turns_is_the_error_of_this_attempt() -> None:
    first, last = await turns_of(Yielding(FIRST, ValueError("odd reply")))
    assert first == FIRST
    assert (last.end, last.observation) == (AgentEnd.ERROR, "ValueError: odd reply")


async def test_failures_of_session_and_sandbox_pass_through() -> None:
    with pytest.raises(InfrastructureError, match="gone"):
        await turns_of(Yielding(FIRST, LOST))


@pytest.mark.parametrize("agent", [None, "agent", Turn], ids=str)
def test_what_has_no_run_is_no_agent(agent: Any) -> None:
    with pytest.raises(CustomCodeError, match=f"^{CALLED} returned .*; it must return an agent"):
        CustomAgent(agent, CALLED)


@pytest.mark.parametrize(
    ("scripted", "error"),
    [
        pytest.param(None, NotImplementedError, id="none"),
        pytest.param(NotImplementedError("none"), NotImplementedError, id="says-so"),
        pytest.param(KeyError("x"), CustomCodeError, id="raises"),
    ],
)
def test_a_script_is_there_or_is_not(scripted: Exception | None, error: type[Exception]) -> None:
    agent: Any = Yielding()
    if scripted is not None:

        def script(task: Task, *, correct: bool, seed: int) -> list[Message]:
            raise scripted

        agent.scripted = script
    with pytest.raises(error):
        CustomAgent(agent, CALLED).scripted(TASK, correct=True, seed=0)
