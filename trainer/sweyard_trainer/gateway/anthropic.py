"""The part of Anthropic's Messages API that is spoken here: what its command-line agents need of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.gateway.dialect import MODEL_NAME, Answered, Asked, ReturnedReply, not_settable, read_request
from sweyard_trainer.gateway.gateway import Answer
from sweyard_trainer.gateway.tool_calls import ToolCall


class TextBlock(BaseModel):
    """Words."""

    type: Literal["text"]
    text: str


class ThinkingBlock(BaseModel):
    """Thoughts that a client returns; the sampled text has them already."""

    type: Literal["thinking", "redacted_thinking"]


class CallBlock(BaseModel):
    """A call of an earlier reply."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] = {}


class ResultBlock(BaseModel):
    """What came of a call."""

    type: Literal["tool_result"]
    content: str | list[TextBlock] = ""

    @property
    def text(self) -> str:
        """Its words."""
        return self.content if isinstance(self.content, str) else "".join(block.text for block in self.content)


Block = Annotated[TextBlock | ThinkingBlock | CallBlock | ResultBlock, Field(discriminator="type")]


class Turn(BaseModel):
    """One message."""

    role: Literal["user", "assistant"]
    content: str | list[Block]

    @property
    def blocks(self) -> list[TextBlock | ThinkingBlock | CallBlock | ResultBlock]:
        """Its content in the long form."""
        return [TextBlock(type="text", text=self.content)] if isinstance(self.content, str) else list(self.content)

    def turns(self) -> Iterator[Message | ReturnedReply]:
        """A user's message may hold results of calls, each a message of its own, and words after them."""
        text = "".join(block.text for block in self.blocks if isinstance(block, TextBlock))
        if self.role == "assistant":
            calls = [block for block in self.blocks if isinstance(block, CallBlock)]
            yield ReturnedReply(text, tuple((call.id, ToolCall(call.name, call.input)) for call in calls))
            return
        results = [Message("tool", block.text) for block in self.blocks if isinstance(block, ResultBlock)]
        yield from results
        if text or not results:
            yield Message("user", text)


class Tool(BaseModel):
    """One that is offered."""

    model_config = ConfigDict(extra="ignore")
    name: str = Field(min_length=1)
    description: str = ""
    input_schema: dict[str, Any]

    @property
    def offered(self) -> dict[str, Any]:
        """As chat templates take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


class MessagesRequest(BaseModel):
    """A request. The session's sampling parameters hold, so `temperature` and `thinking` are ignored."""

    model_config = ConfigDict(extra="ignore")
    messages: list[Turn] = Field(min_length=1)
    system: str | list[TextBlock] = ""
    max_tokens: int = Field(ge=1)
    model: str = MODEL_NAME
    stream: bool = False
    tools: list[Tool] = []
    tool_choice: dict[str, Any] = {"type": "auto"}
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] = []

    def asked(self) -> Asked:
        """Raises BadRequestError."""
        neutral = {
            "top_p": self.top_p in (None, 1),
            "top_k": self.top_k is None,
            "stop_sequences": not self.stop_sequences,
            "tool_choice": self.tool_choice.get("type") in ("auto", "none"),
        }
        if odd := next((name for name, is_neutral in neutral.items() if not is_neutral), None):
            raise not_settable(odd)
        tools = self.tools if self.tool_choice.get("type") == "auto" else []
        system = self.system if isinstance(self.system, str) else "".join(block.text for block in self.system)
        return Asked(
            [
                *([Message("system", system)] if system else []),
                *(turn for each in self.messages for turn in each.turns()),
            ],
            self.max_tokens,
            json.dumps([tool.offered for tool in tools], ensure_ascii=False) if tools else "",
            {tool.name: tool.input_schema for tool in tools},
            self.stream,
            self.model,
        )


class Anthropic:
    """Dialect of POST /v1/messages."""

    keepalive = 'event: ping\ndata: {"type": "ping"}\n\n'

    def parse(self, body: bytes) -> Asked:
        """See Dialect."""
        return read_request(MessagesRequest, body).asked()

    def body(self, answered: Answered) -> dict[str, Any]:
        """See Dialect."""
        answer = answered.answer
        usage = {"input_tokens": answer.num_prompt_tokens, "output_tokens": answer.reply.num_tokens}
        ended = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        return {**_head(answered.number, answered.asked), "content": _content(answer), **ended, "usage": usage}

    def events(self, number: int, asked: Asked) -> "MessageEvents":
        """See Dialect."""
        return MessageEvents(_head(number, asked))

    def error(self, message: str, status: int, code: str, param: str | None = None) -> dict[str, Any]:
        """See Dialect."""
        kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


@dataclass(slots=True)
class MessageEvents:
    """See Events: begin, a block of text, each call whole, end with the reason and the usage."""

    head: dict[str, Any]
    has_text: bool = False

    def begin(self, num_prompt_tokens: int) -> list[str]:
        """See Events."""
        usage = {"input_tokens": num_prompt_tokens, "output_tokens": 0}
        begun = {**self.head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return [_event("message_start", message=begun)]

    def text(self, piece: str) -> list[str]:
        """See Events."""
        said = _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        return [*self._text_begins(), said]

    def end(self, answered: Answered) -> list[str]:
        """See Events."""
        answer = answered.answer
        blocks = _content(answer)
        events = self._text_begins() if blocks[0]["type"] == "text" else []
        events += [_event("content_block_stop", index=0)] if self.has_text else []
        for index, block in enumerate(blocks):
            events += _call_events(index, block) if block["type"] == "tool_use" else []
        ended = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        usage = {"output_tokens": answer.reply.num_tokens}
        return [*events, _event("message_delta", delta=ended, usage=usage), _event("message_stop")]

    def _text_begins(self) -> list[str]:
        if self.has_text:
            return []
        self.has_text = True
        return [_event("content_block_start", index=0, content_block={"type": "text", "text": ""})]


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def _head(number: int, asked: Asked) -> dict[str, Any]:
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": asked.model}


def _content(answer: Answer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.content}] if answer.content or not answer.calls else []
    calls = [
        {"type": "tool_use", "id": number, "name": call.name, "input": call.arguments} for number, call in answer.calls
    ]
    return [*text, *calls]


def _call_events(index: int, block: dict[str, Any]) -> list[str]:
    delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"], ensure_ascii=False)}
    return [
        _event("content_block_start", index=index, content_block=block | {"input": {}}),
        _event("content_block_delta", index=index, delta=delta),
        _event("content_block_stop", index=index),
    ]


def _stop_reason(answer: Answer) -> str:
    if answer.calls:
        return "tool_use"
    return "max_tokens" if answer.reply.finish_reason is FinishReason.LENGTH else "end_turn"
