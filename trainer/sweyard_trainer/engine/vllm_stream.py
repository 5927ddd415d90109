"""A completion as vLLM streams it, chunk by chunk; one that breaks off goes on behind what was told."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion

_DATA = b"data: "
_END = b"[DONE]"


@dataclass(slots=True)
class Told:
    """What a server has said of one reply, over all requests for it; none of it is asked for again."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    weight_version: int = 0
    finish_reason: FinishReason | None = None

    def add(self, chunk: Completion) -> None:
        """One more piece."""
        self.token_ids += chunk.token_ids
        self.logprobs += chunk.logprobs

    def completion(self) -> Completion:
        """All of it, once it has ended."""
        assert self.finish_reason is not None, "it goes on"
        return Completion(tuple(self.token_ids), tuple(self.logprobs), self.weight_version, self.finish_reason)

    def rest_of(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request for what is still to be said of the reply that `body` asks for."""
        left = body["max_tokens"] - len(self.token_ids)
        return {**body, "prompt": [*body["prompt"], *self.token_ids], "max_tokens": left, "stream": True}


async def chunks(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The objects of a stream of server-sent events, until its end mark. Raises ClientPayloadError."""
    rest = b""
    async for data in response.content.iter_any():
        *whole, rest = (rest + data).split(b"\n\n")
        for event in whole:
            text = event.strip().removeprefix(_DATA)
            if text == _END:
                return
            yield json_object(text)


def json_object(data: bytes) -> dict[str, Any]:
    """Raises ClientPayloadError for anything else, as for what the connection spoiled."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise aiohttp.ClientPayloadError(f"{data[:200]!r} is no JSON object")
    return value
