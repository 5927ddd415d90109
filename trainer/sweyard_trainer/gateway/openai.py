"""The part of the OpenAI chat completions API that is spoken here: parsing, replies, stream chunks, errors."""

import json
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.tools.calls import read_json
from sweyard_trainer.gateway.dialect import (
    MODEL_NAME,
    Answered,
    Asked,
    BadRequestError,
    ReturnedReply,
    not_settable,
    read_request,
)
from sweyard_trainer.gateway.gateway import Answer
from sweyard_trainer.gateway.shown_replies import Numbered
from sweyard_trainer.gateway.tool_calls import ToolCall


class ContentPart(BaseModel):
    """One part of a message's content; only text."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["text"]
    text: str


class CalledFunction(BaseModel):
    """What a returned call says."""

    name: str = Field(min_length=1)
    arguments: str = "{}"
    """JSON text of an object."""


class ReturnedCall(BaseModel):
    """A call of an earlier reply, as the client sends it back."""

    id: str = ""
    function: CalledFunction

    def numbered(self) -> Numbered:
        """Raises BadRequestError."""
        arguments = read_json(self.function.arguments or "{}")
        if not isinstance(arguments, dict):
            raise BadRequestError(f"arguments of the call {self.id!r} are no JSON object", "messages")
        return self.id, ToolCall(self.function.name, arguments)


class ChatMessage(BaseModel):
    """One message as clients send it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ReturnedCall] | None = None

    @property
    def text(self) -> str:
        """Its content, parts joined."""
        return "".join(part.text for part in self.content) if isinstance(self.content, list) else self.content or ""

    def turn(self) -> Message | ReturnedReply:
        """Raises BadRequestError."""
        if self.role == "assistant":
            return ReturnedReply(self.text, tuple(call.numbered() for call in self.tool_calls or []))
        return Message("system" if self.role == "developer" else self.role, self.text)


class ToolFunction(BaseModel):
    """A tool that is offered."""

    model_config = ConfigDict(extra="ignore")
    name: str = Field(min_length=1)
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """One entry of `tools`."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["function"] = "function"
    function: ToolFunction


def _as_written(told: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The client's own words, in their order: a model sees them."""
    check(told)
    return told


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
    tools: list[Annotated[Tool, WrapValidator(_as_written)]] | None = None
    tool_choice: str | dict[str, Any] | None = None

    def asked(self) -> Asked:
        """Raises BadRequestError."""
        tools = [] if self.tool_choice == "none" else cast(list[dict[str, Any]], self.tools or [])
        functions = [tool["function"] for tool in tools]
        return Asked(
            [message.turn() for message in self.messages],
            self.max_completion_tokens or self.max_tokens,
            json.dumps(tools, ensure_ascii=False) if tools else "",
            {function["name"]: function.get("parameters") or {} for function in functions},
            self.stream,
            self.model or MODEL_NAME,
        )


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "stop": ([],),
    "tool_choice": ("auto", "none"),
}
"""Values that change nothing; others would make the recorded logprobs those of another distribution, or be lost."""


class OpenAi:
    """Dialect of POST /v1/chat/completions."""

    keepalive = ": waiting\n\n"

    def parse(self, body: bytes) -> Asked:
        """See Dialect."""
        request = read_request(ChatRequest, body)
        for field, values in NEUTRAL.items():
            value = getattr(request, field)
            if value is not None and value not in values:
                raise not_settable(field)
        return request.asked()

    def body(self, answered: Answered) -> dict[str, Any]:
        """See Dialect."""
        answer = answered.answer
        message: dict[str, Any] = {"role": "assistant", "content": answer.content}
        if answer.calls:
            message["tool_calls"] = [_call(numbered) for numbered in answer.calls]
        # Not OpenAI's: the reply with its calls as they were sampled, for agents that read them themselves.
        sampled = {"text": answer.reply.content, "finish_reason": answer.reply.finish_reason.value}
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
        choice["sampled"] = sampled
        return {
            **_head(answered.number, answered.asked, "chat.completion"),
            "choices": [choice],
            "usage": _usage(answer),
        }

    def events(self, number: int, asked: Asked) -> "ChatEvents":
        """See Dialect."""
        return ChatEvents(_head(number, asked, "chat.completion.chunk"))

    def error(self, message: str, status: int, code: str, param: str | None = None) -> dict[str, Any]:
        """See Dialect."""
        kind = "server_error" if status >= 500 else "authentication_error" if status == 401 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True, slots=True)
class ChatEvents:
    """See Events: role, text, calls, end with the usage, and the end mark."""

    head: dict[str, Any]

    def begin(self, num_prompt_tokens: int) -> list[str]:
        """See Events."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def text(self, piece: str) -> list[str]:
        """See Events."""
        return [self._chunk({"content": piece})]

    def end(self, answered: Answered) -> list[str]:
        """See Events."""
        answer = answered.answer
        calls = [{"index": index, **_call(numbered)} for index, numbered in enumerate(answer.calls)]
        return [
            *([self._chunk({"tool_calls": calls})] if calls else []),
            self._chunk({}, _finish(answer), usage=_usage(answer)),
            "data: [DONE]\n\n",
        ]

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **extra: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return f"data: {json.dumps({**self.head, 'choices': [choice], **extra})}\n\n"


def _head(number: int, asked: Asked, kind: str) -> dict[str, Any]:
    head = {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time())}
    return {**head, "model": asked.model}


def _call(numbered: Numbered) -> dict[str, Any]:
    number, call = numbered
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": number, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else answer.reply.finish_reason.value


def _usage(answer: Answer) -> dict[str, int]:
    prompt, reply = answer.num_prompt_tokens, answer.reply.num_tokens
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
