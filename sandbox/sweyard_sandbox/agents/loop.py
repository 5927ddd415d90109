"""The loop that turn-based agents share: ask the model, carry out its call, show what came of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sweyard_sandbox.agents.protocol import AgentEnd, ChatSession, FinishReason, Message, Reply, Role, Turn


@dataclass(frozen=True, slots=True)
class Step:
    """What one reply did to the sandbox."""

    call: str
    """Name of the tool; empty if the reply was malformed."""
    observation: str = ""
    finished: bool = False
    role: Role = "user"
    """Whose the observation is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When an attempt ends by itself."""

    max_turns: int
    timeout_seconds: float
    """Of the whole attempt."""
    max_tokens: int | None = None
    """Of one reply; default the session's."""


T = TypeVar("T")
EMPTY_REPLY = Reply("", FinishReason.STOP, 0)
Act = Callable[[str], Awaitable[Step]]
"""Carries out the text of a reply. A malformed one is told in the observation, never raised."""


Remind = Callable[[int], str]
"""What an observation ends with, given the turns that are left."""


def no_reminder(turns_left: int) -> str:
    """Nothing."""
    return ""


async def converse(
    messages: list[Message],
    session: ChatSession,
    act: Act,
    limits: Limits,
    remind: Remind = no_reminder,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Turn]:
    """Yield turns until the agent finishes or a limit ends it; `messages` grows, and is never rewritten.

    Infrastructure failures of session and sandbox pass through.
    """
    deadline = clock() + limits.timeout_seconds
    for number in range(1, limits.max_turns + 1):
        start = clock()
        reply, expired = await _within(session.chat(list(messages), max_tokens=limits.max_tokens), deadline - start)
        seconds_model = clock() - start
        if expired or reply is None:
            yield Turn(EMPTY_REPLY, seconds_model=seconds_model, end=AgentEnd.TIMEOUT)
            return
        messages.append(Message("assistant", reply.content))
        if reply.finish_reason is FinishReason.LENGTH:
            yield Turn(reply, seconds_model=seconds_model, end=AgentEnd.TRUNCATED)
            return
        start = clock()
        step, expired = await _within(act(reply.content), deadline - start)
        seconds_sandbox = clock() - start
        if expired or step is None:
            yield Turn(reply, "", "", seconds_model, seconds_sandbox, AgentEnd.TIMEOUT)
            return
        end = AgentEnd.FINISHED if step.finished else AgentEnd.MAX_TURNS if number == limits.max_turns else None
        observation = "" if end else step.observation + remind(limits.max_turns - number)
        if end is None:
            messages.append(Message(step.role, observation))
        yield Turn(reply, step.call, observation, seconds_model, seconds_sandbox, end)
        if end is not None:
            return


async def _within(work: Awaitable[T], seconds: float) -> tuple[T | None, bool]:
    """Result and False, or None and True once `seconds` are over. A TimeoutError of the work itself passes through."""
    try:
        async with asyncio.timeout(max(0.0, seconds)) as timeout:
            return await work, False
    except TimeoutError:
        if timeout.expired():
            return None, True
        raise
