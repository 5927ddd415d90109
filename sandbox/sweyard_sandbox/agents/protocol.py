"""Agent, ChatSession and the records of a conversation.

An agent is an async generator of turns over a session (the model) and a sandbox (the world). It never sees tokens:
the gateway behind the session keeps those. It never grades.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    LENGTH = "length"
    """The reply hit its token limit, or the context was full before it began."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said."""

    content: str
    finish_reason: FinishReason
    num_tokens: int


class ChatSession(Protocol):
    """One conversation with the model. The gateway records ids, logprobs and weight versions behind it."""

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        """Reply to `messages`, the whole conversation so far.

        A conversation that only grows stays one token sequence; a rewritten history forks.
        Raises InfrastructureError when no engine can answer within its deadline.
        """
        ...


@runtime_checkable
class ToolSession(ChatSession, Protocol):
    """A ChatSession that can offer tools to the model."""

    def offering(self, tools: str) -> ChatSession:
        """The same conversation with these tools, JSON text, in its chat template; replies have calls as they were
        sampled, in the form that the template teaches."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a program in a sandbox speaks to its session."""

    url: str
    """Without /v1."""
    token: str
    """Authorises calls of this session alone."""


@runtime_checkable
class ReachableSession(ChatSession, Protocol):
    """A ChatSession that programs in a sandbox can call themselves."""

    async def endpoint(self, sandbox: Sandbox) -> Endpoint:
        """Where `sandbox` reaches it, until the session ends. Raises InfrastructureError where it cannot."""
        ...


class AgentEnd(StrEnum):
    """Why an agent stopped."""

    FINISHED = "finished"
    MAX_TURNS = "max_turns"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply and what it did."""

    reply: Reply
    call: str = ""
    """Name of the tool called; empty when the reply was malformed."""
    observation: str = ""
    """What the agent was shown in answer; empty on the last turn."""
    seconds_model: float = 0.0
    seconds_sandbox: float = 0.0
    end: AgentEnd | None = None
    """Set on the last turn."""


def has_no_script(agent_type: str) -> NotImplementedError:
    """What `scripted` raises of an agent without a scripted solver."""
    said = f"agent.type {agent_type} has no scripted solver"
    return NotImplementedError(said)


class Agent(Protocol):
    """One way of working."""

    def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Work on `task` until done; yields each turn as it ends. The last turn carries `end`."""
        ...

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """The conversation of a scripted solver that does (or, plausibly, does not) solve `task`, for warm-up.

        The assistant messages are the targets. Raises NotImplementedError where the agent has no scripted solver.
        """
        ...
