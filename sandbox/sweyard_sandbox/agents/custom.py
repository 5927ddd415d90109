"""A user's own agent, held to its protocol: what it does wrong is told as its own, and never passes for a bug of ours.

One that fails before its first turn would fail at every task, and ends the run. Later it is the agent's error of one
attempt, as is the crash of a `cli` agent's program.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sweyard_sandbox.agents.loop import EMPTY_REPLY
from sweyard_sandbox.agents.protocol import Agent, AgentEnd, ChatSession, Message, Turn, has_no_script
from sweyard_sandbox.custom_code import CustomCodeError, users_faults
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CustomAgent:
    """See protocol.Agent."""

    agent: Agent
    called: str
    """Field and value, as sentences begin."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "run", None)):
            raise CustomCodeError(f"{self.called} returned {self.agent!r}; it must return an agent, which has `run`")

    @property
    def has_script(self) -> bool:
        """Whether it can show a warm-up how tasks are solved."""
        return hasattr(self.agent, "scripted")

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """The user's turns. Raises CustomCodeError."""
        num_turns = 0
        try:
            async for turn in self.agent.run(task, session, sandbox):
                if not isinstance(turn, Turn):
                    raise CustomCodeError(f"{self.called} yielded {turn!r}; an agent yields turns (agents/protocol.py)")
                num_turns += 1
                yield turn
        except SweyardError:  # of session and sandbox, which are not the agent's
            raise
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}"
            if num_turns == 0:
                raise CustomCodeError(
                    f"{self.called} failed on task {task.id!r} before its first turn: {said}"
                ) from error
            logger.exception("%s failed on task %r after %d turns", self.called, task.id, num_turns)
            yield Turn(EMPTY_REPLY, observation=said, end=AgentEnd.ERROR)

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """The user's, if there is one. Raises NotImplementedError, CustomCodeError."""
        if not self.has_script:
            raise has_no_script("custom")
        with users_faults(f"{self.called} failed by its `scripted` on task {task.id!r}", NotImplementedError):
            messages: list[Message] = self.agent.scripted(task, correct=correct, seed=seed)
        return messages
