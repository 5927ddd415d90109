"""What the APIs that agents speak have in common: a conversation and tools are asked of, a reply with calls answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.gateway.gateway import Answer
from sweyard_trainer.gateway.shown_replies import Numbered
from sweyard_trainer.gateway.tool_calls import Schemas

MODEL_NAME = "policy"
RequestT = TypeVar("RequestT", bound=BaseModel)


class BadRequestError(SweyardError, ValueError):
    """A request that cannot be answered as asked."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


def read_request(kind: type[RequestT], body: bytes) -> RequestT:
    """Raises BadRequestError with a sentence that names the first wrong field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(str(part) for part in first["loc"])
        raise BadRequestError(f"{field_name or 'body'}: {first['msg']}", field_name or None) from error


def not_settable(field_name: str) -> BadRequestError:
    """A value would make the recorded logprobs those of another distribution, or be lost."""
    said = f"{field_name} cannot be set here: a training session samples the policy as it is"
    return BadRequestError(said, field_name)


@dataclass(frozen=True, slots=True)
class ReturnedReply:
    """An earlier reply, as the client sends it back."""

    content: str
    calls: tuple[Numbered, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    messages: Sequence[Message | ReturnedReply]
    reply_limit: int | None = None
    """The client's own limit on the reply, in tokens."""
    tools: str = ""
    """Those offered, as the canonical JSON text of OpenAI's form, which chat templates take; empty without any."""
    schemas: Schemas = field(default_factory=dict)
    stream: bool = False
    model: str = MODEL_NAME


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer, and what it is called."""

    number: int
    asked: Asked
    answer: Answer


class Events(Protocol):
    """One answer as server-sent events, in this order: begin, text any number of times, end."""

    def begin(self, num_prompt_tokens: int) -> list[str]:
        """Before the reply."""
        ...

    def text(self, piece: str) -> list[str]:
        """More of the reply's content, never empty."""
        ...

    def end(self, answered: Answered) -> list[str]:
        """Calls, and why the reply ended. All of its content has been told."""
        ...


class Dialect(Protocol):
    """One API."""

    keepalive: str
    """What keeps a stream open and says nothing."""

    def parse(self, body: bytes) -> Asked:
        """Raises BadRequestError with a sentence that names the field."""
        ...

    def body(self, answered: Answered) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        ...

    def events(self, number: int, asked: Asked) -> "Events":
        """The same answer as server-sent events."""
        ...

    def error(self, message: str, status: int, code: str, param: str | None = None) -> dict[str, Any]:
        """An error, as its clients expect it."""
        ...
