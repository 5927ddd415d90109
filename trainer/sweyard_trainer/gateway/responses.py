"""The part of OpenAI's Responses API that is spoken here: what its command-line agents need of it.

Nothing is stored: each request holds the whole conversation, and `previous_response_id` is refused.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.gateway.dialect import (
    MODEL_NAME,
    Answered,
    Asked,
    BadRequestError,
    ReturnedReply,
    not_settable,
    read_request,
)
from sweyard_trainer.gateway.openai import CalledFunction, OpenAi, ReturnedCall
from sweyard_trainer.gateway.responses_events import ResponsesEvents, response_head, response_of


class TextPart(BaseModel):
    """A part of a message; only text."""

    type: Literal["input_text", "output_text", "text"]
    text: str


def _as_parts(content: Any) -> Any:
    """Text alone is one part."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


Parts = Annotated[list[TextPart], BeforeValidator(_as_parts)]


def _joined(parts: list[TextPart]) -> str:
    return "".join(part.text for part in parts)


class MessageItem(BaseModel):
    """Words of somebody."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Parts


class CallItem(BaseModel):
    """A call of an earlier reply."""

    type: Literal["function_call"]
    call_id: str
    name: str = Field(min_length=1)
    arguments: str = "{}"


class ResultItem(BaseModel):
    """What came of a call."""

    type: Literal["function_call_output"]
    output: Parts


class ReasoningItem(BaseModel):
    """Thoughts that a client returns; the sampled text has them already."""

    type: Literal["reasoning"]


def _kind(item: Any) -> str:
    """Messages need not say that they are."""
    return str(item.get("type", "message")) if isinstance(item, dict) else str(getattr(item, "type", ""))


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[ResultItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind),
]


def _as_items(asked: Any) -> Any:
    """Text alone is a user's."""
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else asked


class Tool(BaseModel):
    """One that is offered."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["function"]
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None

    @property
    def offered(self) -> dict[str, Any]:
        """As chat templates take it."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": {key: value for key, value in told.items() if value is not None}}


class ResponsesRequest(BaseModel):
    """A request. The session's sampling parameters hold, so `temperature` and `reasoning` are ignored."""

    model_config = ConfigDict(extra="ignore")
    input: Annotated[list[Item], BeforeValidator(_as_items), Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    model: str = MODEL_NAME
    stream: bool = False
    tools: list[Tool] = []
    tool_choice: str | dict[str, Any] = "auto"
    top_p: float | None = None
    previous_response_id: str | None = None

    def asked(self) -> Asked:
        """Raises BadRequestError."""
        if self.previous_response_id is not None:
            said = "previous_response_id cannot be used: nothing is stored here, so send the whole conversation"
            raise BadRequestError(said, "previous_response_id")
        neutral = {"top_p": self.top_p in (None, 1), "tool_choice": self.tool_choice in ("auto", "none")}
        if odd := next((name for name, is_neutral in neutral.items() if not is_neutral), None):
            raise not_settable(odd)
        tools = self.tools if self.tool_choice == "auto" else []
        return Asked(
            [*([Message("system", self.instructions)] if self.instructions else []), *self._turns()],
            self.max_output_tokens,
            json.dumps([tool.offered for tool in tools], ensure_ascii=False) if tools else "",
            {tool.name: tool.parameters or {} for tool in tools},
            self.stream,
            self.model,
        )

    def _turns(self) -> Iterator[Message | ReturnedReply]:
        """A reply is all that the model said without anybody between."""
        for is_reply, items in groupby(self.input, _is_models):
            if is_reply:
                yield _reply(list(items))
                continue
            for item in items:
                if isinstance(item, MessageItem):
                    role: Literal["system", "user"] = "user" if item.role == "user" else "system"
                    yield Message(role, _joined(item.content))
                elif isinstance(item, ResultItem):
                    yield Message("tool", _joined(item.output))


def _is_models(item: Item) -> bool:
    is_said = isinstance(item, MessageItem) and item.role == "assistant"
    return is_said or isinstance(item, CallItem | ReasoningItem)


def _reply(items: list[Item]) -> ReturnedReply:
    text = "".join(_joined(item.content) for item in items if isinstance(item, MessageItem))
    calls = [
        ReturnedCall(id=item.call_id, function=CalledFunction(name=item.name, arguments=item.arguments)).numbered()
        for item in items
        if isinstance(item, CallItem)
    ]
    return ReturnedReply(text, tuple(calls))


class Responses:
    """Dialect of POST /v1/responses."""

    keepalive = OpenAi.keepalive

    def parse(self, body: bytes) -> Asked:
        """See Dialect."""
        return read_request(ResponsesRequest, body).asked()

    def body(self, answered: Answered) -> dict[str, Any]:
        """See Dialect."""
        return response_of(answered, response_head(answered.number, answered.asked))

    def events(self, number: int, asked: Asked) -> ResponsesEvents:
        """See Dialect."""
        return ResponsesEvents(response_head(number, asked))

    def error(self, message: str, status: int, code: str, param: str | None = None) -> dict[str, Any]:
        """See Dialect."""
        return OpenAi().error(message, status, code, param)
