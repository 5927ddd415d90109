"""The part of the OpenAI chat completions API that is spoken here: parsing, replies, stream chunks, errors."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.gateway.gateway import Answer


class BadRequestError(SweyardError, ValueError):
    """A request that cannot be answered as asked."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ContentPart(BaseModel):
    """One part of a message's content; only text."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message as clients send it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    def message(self) -> Message:
        """As the gateway keeps it."""
        if self.tool_calls:
            raise BadRequestError("tool_calls are not rendered here; keep calls in the text of the reply", "messages")
        parts = self.content
        text = "".join(part.text for part in parts) if isinstance(parts, list) else parts or ""
        return Message("system" if self.role == "developer" else self.role, text)


class ChatRequest(BaseModel):
    """A chat completion request. The session's sampling parameters hold, so `temperature` and `seed` are ignored."""

    model_config = ConfigDict(extra="ignore")
    messages: list[ChatMessage] = Field(min_length=1)
    model: str = ""
    stream: bool = False
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def reply_limit(self) -> int | None:
        """The client's own limit on the reply."""
        return self.max_completion_tokens or self.max_tokens


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "stop": ([],),
    "tools": ([],),
}
"""Values that change nothing; others would make the recorded logprobs those of another distribution, or be lost."""


def parse_request(body: bytes) -> ChatRequest:
    """Raises BadRequestError with a sentence that names the field."""
    try:
        request = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadRequestError(f"{field or 'body'}: {first['msg']}", field or None) from error
    for field, values in NEUTRAL.items():
        value = getattr(request, field)
        if value is not None and value not in values:
            raise BadRequestError(f"{field} cannot be set here: a training session samples the policy as it is", field)
    return request


def completion_body(completion_id: str, model: str, created: int, answer: Answer) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    reply = answer.reply
    message = {"role": "assistant", "content": reply.content}
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason.value, "logprobs": None}],
        "usage": _usage(answer),
    }


def stream_events(completion_id: str, model: str, created: int, answer: Answer) -> list[str]:
    """The same answer as server-sent events: role, text, end, and the end mark."""
    reply = answer.reply

    def chunk(delta: dict[str, str], finish: str | None, **extra: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        return f"data: {json.dumps({**head, 'choices': [choice], **extra})}\n\n"

    return [
        chunk({"role": "assistant", "content": ""}, None),
        chunk({"content": reply.content}, None),
        chunk({}, reply.finish_reason.value, usage=_usage(answer)),
        "data: [DONE]\n\n",
    ]


def error_body(message: str, kind: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's clients expect it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _usage(answer: Answer) -> dict[str, int]:
    prompt, reply = answer.num_prompt_tokens, answer.reply.num_tokens
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
