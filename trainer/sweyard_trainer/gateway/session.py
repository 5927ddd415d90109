"""Session: one attempt's conversation with the model, what it may use, and what it leaves."""

from dataclasses import dataclass, field

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.engine.engine import Engine
from sweyard_trainer.gateway.conversation import Conversation
from sweyard_trainer.gateway.shown_replies import ShownReplies
from sweyard_trainer.trajectory import Segment


class SessionUnknownError(SweyardError, KeyError):
    """No session has this id, or this token."""


class SessionSpentError(SweyardError):
    """The session has used up its calls or its time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use, in tokens."""

    max_prompt_tokens: int
    max_response_tokens: int
    """Added to the first prompt, observations included."""
    max_tokens_per_turn: int
    max_calls: int | None = None
    """Replies; for clients that keep no count of their turns themselves."""
    max_seconds: float | None = None
    """From the session's begin to that of its last reply."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What a finished session leaves."""

    segments: tuple[Segment, ...]
    num_forks: int
    truncated: bool
    """A reply was cut by a token limit, or had no room to begin."""
    spent: str = ""
    """What of its budget a refused call lacked: `calls`, `seconds`, or nothing."""
    messages: tuple[Message, ...] = ()
    """The longest conversation, as people read it."""
    failure: str = ""
    """Why the last call had no reply, if no engine could give one, or none did before the session's end."""


@dataclass(slots=True)
class Session:
    """One attempt's conversation with the model."""

    id: str
    token: str
    temperature: float
    seed: int
    conversation: Conversation
    limits: Limits
    began: float
    shown: ShownReplies = field(default_factory=ShownReplies)
    spent: str = ""
    failure: str = ""
    asked: Engine | None = None
    """Which has not answered its last call."""
    first_prompt_tokens: int | None = None
    num_calls: int = 0
    truncated: bool = False
    last_used: float = 0.0

    def spend(self, now: float) -> None:
        """One more call begins. Raises SessionSpentError."""
        self.last_used = now
        limits = self.limits
        if limits.max_calls is not None and self.num_calls >= limits.max_calls:
            self.spent = "calls"
            raise SessionSpentError(f"the session has had its {limits.max_calls} replies")
        if limits.max_seconds is not None and now > self.began + limits.max_seconds:
            self.spent = "seconds"
            raise SessionSpentError(f"the session's {limits.max_seconds:g} seconds are over")

    def room(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Tokens that the next reply may have; 0 or less if the prompt has filled the context."""
        limits = self.limits
        if self.first_prompt_tokens is None:
            self.first_prompt_tokens = prompt_tokens
        if self.first_prompt_tokens > limits.max_prompt_tokens:
            return 0
        left = self.first_prompt_tokens + limits.max_response_tokens - prompt_tokens
        return min(left, limits.max_tokens_per_turn, max_tokens or limits.max_tokens_per_turn)

    def record(self) -> SessionRecord:
        """What it leaves."""
        talk = self.conversation
        failure = self.failure or (self.asked.trouble if self.asked is not None else "")
        return SessionRecord(talk.segments(), talk.num_forks, self.truncated, self.spent, talk.messages, failure)
