"""Answers of the Responses API: an object whole, or event by event."""

import json
import time
from dataclasses import dataclass
from typing import Any

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.gateway.dialect import Answered, Asked
from sweyard_trainer.gateway.gateway import Answer

Json = dict[str, Any]


def response_head(number: int, asked: Asked) -> Json:
    """What is known of a response before its reply."""
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def response_of(answered: Answered, head: Json) -> Json:
    """The same with its reply."""
    answer = answered.answer
    is_cut = answer.reply.finish_reason is FinishReason.LENGTH
    prompt, reply = answer.num_prompt_tokens, answer.reply.num_tokens
    return {
        **head,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": _output(answer, head["id"]),
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + reply,
        },
    }


def _output(answer: Answer, response_id: str) -> list[Json]:
    """A message, unless there are calls alone, and the calls."""
    texts = [_message(response_id, answer.content)] if answer.content or not answer.calls else []
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": number,
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
            "status": "completed",
        }
        for number, call in answer.calls
    ]
    return [*texts, *calls]


def _message(response_id: str, text: str) -> Json:
    return {
        "type": "message",
        "id": f"msg_{response_id}",
        "role": "assistant",
        "status": "completed",
        "content": [_part(text)],
    }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


@dataclass(slots=True)
class ResponsesEvents:
    """See Events: created, the message piece by piece, each call whole, completed."""

    head: Json
    num_events: int = 0
    has_text: bool = False

    def begin(self, num_prompt_tokens: int) -> list[str]:
        """See Events."""
        return [self._event(f"response.{kind}", response=self.head) for kind in ("created", "in_progress")]

    def text(self, piece: str) -> list[str]:
        """See Events."""
        place = {"item_id": self._message_id, "output_index": 0, "content_index": 0}
        begun = self._text_begins()
        return [*begun, self._event("response.output_text.delta", **place, delta=piece, logprobs=[])]

    def end(self, answered: Answered) -> list[str]:
        """See Events."""
        response = response_of(answered, self.head)
        events: list[str] = []
        for index, item in enumerate(response["output"]):
            events += self._text_ends(item) if item["type"] == "message" else self._call(index, item)
        return [*events, self._event(f"response.{response['status']}", response=response)]

    @property
    def _message_id(self) -> str:
        return f"msg_{self.head['id']}"

    def _text_begins(self) -> list[str]:
        if self.has_text:
            return []
        self.has_text = True
        item = _message(self.head["id"], "") | {"status": "in_progress", "content": []}
        place = {"item_id": self._message_id, "output_index": 0, "content_index": 0}
        return [
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.content_part.added", **place, part=_part("")),
        ]

    def _text_ends(self, item: Json) -> list[str]:
        place = {"item_id": self._message_id, "output_index": 0, "content_index": 0}
        [part] = item["content"]
        return [
            *self._text_begins(),
            self._event("response.output_text.done", **place, text=part["text"], logprobs=[]),
            self._event("response.content_part.done", **place, part=part),
            self._event("response.output_item.done", output_index=0, item=item),
        ]

    def _call(self, index: int, item: Json) -> list[str]:
        place = {"item_id": item["id"], "output_index": index}
        begun = item | {"status": "in_progress", "arguments": ""}
        told = {"name": item["name"], "arguments": item["arguments"]}
        return [
            self._event("response.output_item.added", output_index=index, item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=item["arguments"]),
            self._event("response.function_call_arguments.done", **place, **told),
            self._event("response.output_item.done", output_index=index, item=item),
        ]

    def _event(self, kind: str, **fields: Any) -> str:
        told = {"type": kind, "sequence_number": self.num_events, **fields}
        self.num_events += 1
        return f"event: {kind}\ndata: {json.dumps(told)}\n\n"
