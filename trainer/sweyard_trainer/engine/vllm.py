"""A vLLM server by URL: /v1/completions with token ids, never text."""

import asyncio
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from sweyard_api.engine_command import ADAPTER_NAME
from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineError, EngineUnfitError, OnTokens
from sweyard_trainer.engine.routing import decode_routing
from sweyard_trainer.engine.vllm_stream import Told, chunks

T = TypeVar("T")

RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
"""503 is what vLLM says while it is paused for a weight update."""
RETRY_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 3.0
"""Of an idle connection; vLLM left to itself closes one after 5 s, and a request that meets that is lost."""
REMEDY = "start vLLM with --logprobs-mode processed_logprobs and let nothing between strip response fields"
ALLOW_TEXT = "for an external engine inference.retokenizeReplies allows to train on its text instead"

Encode = Callable[[str], Sequence[int]]
"""Text of a reply to ids, without a stop token."""


class VllmEngine:
    """Client of one server. Its connections belong to the event loop that first uses it."""

    def __init__(
        self,
        url: str,
        *,
        deadline_seconds: float = 1_800.0,
        api_key: str | None = None,
        fixed_weights: bool = False,
        encode: Encode | None = None,
        streams: bool = True,
    ) -> None:
        """With `fixed_weights` it has version 0 for ever and is not asked. `encode` is for text without ids. Servers
        that are to tell which experts a token took do so of whole replies alone, so those must not be streamed."""
        self._url = url.rstrip("/")
        self._fixed_weights = fixed_weights
        self._encode = encode
        self._streams = streams and encode is None
        self._model: str | None = None
        self._deadline_seconds = deadline_seconds
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http: aiohttp.ClientSession | None = None

    @property
    def name(self) -> str:
        return self._url

    async def check(self) -> None:
        await self.complete([0], max_tokens=1, temperature=0.5, stop_token_ids=[], seed=0, cache_salt="check")

    async def weight_version(self) -> int:
        if self._fixed_weights:
            return 0
        self._model = None  # adapters may have come since
        return await self._send(self._ask_version, "/weight_info")

    async def complete(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        seed: int,
        cache_salt: str,
        routing_from: int = 0,
        on_tokens: OnTokens | None = None,
    ) -> Completion:
        body = {
            "model": await self._served_model(),
            "prompt": list(prompt_ids),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": list(stop_token_ids),
            "seed": seed,
            "logprobs": 0,
            "return_token_ids": True,
            "cache_salt": cache_salt,
            "routed_experts_prompt_start": routing_from,
        }
        if on_tokens is not None and self._streams:
            told = Told()
            await self._send(functools.partial(self._stream, body, told, on_tokens), "/v1/completions")
            return told.completion()
        reply, version = await self._send(functools.partial(self._sample, body), "/v1/completions")
        if self._encode is not None and reply["choices"][0].get("token_ids") is None:
            return retokenized(reply, version, self._encode, stop_token_ids)
        return parse_completion(reply, prompt_ids, version, self._url, routing_from)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _served_model(self) -> str:
        if self._model is None:
            reply = await self._send(functools.partial(self._get, "/v1/models"), "/v1/models")
            served = [str(model["id"]) for model in reply["data"]]
            self._model = ADAPTER_NAME if ADAPTER_NAME in served else served[0]
        return self._model

    async def _send(self, request: Callable[[float], Awaitable[T]], path: str) -> T:
        """One request, tried again while the server is paused, starting or gone, until the deadline.

        `request` is given the seconds that are left.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._deadline_seconds
        while True:
            try:
                return await request(give_up_at - loop.time())
            except _NoAnswerError as error:
                if error.status is not None and error.status not in RETRY_STATUSES:
                    raise EngineError(f"{self._url}{path} answered {error.status}: {error.problem}") from None
                if loop.time() + RETRY_SECONDS >= give_up_at:
                    raise EngineError(
                        f"{self._url}{path} gave no answer in {self._deadline_seconds:g} s: {error.problem}"
                    ) from None
            await asyncio.sleep(RETRY_SECONDS)

    async def _sample(self, body: dict[str, Any], seconds: float) -> tuple[dict[str, Any], int]:
        """A completion and the version that sampled it.

        An update waits for completions under way, so a server that has the same version before and after had no other.
        """
        if self._fixed_weights:
            return await self._once("POST", "/v1/completions", body, seconds), 0
        before = await self._ask_version(seconds)
        reply = await self._once("POST", "/v1/completions", body, seconds)
        if await self._ask_version(seconds) != before:
            raise _NoAnswerError(None, "its weights changed during the request")
        return reply, before

    async def _stream(self, body: dict[str, Any], told: Told, on_tokens: OnTokens, seconds: float) -> None:
        """Take in the rest of a reply, chunk by chunk, telling of each.

        What was told cannot be taken back, so it is of the version that the server had before and has with the first
        chunk: it could not change since. Raises EngineError where a reply that broke off cannot go on.
        """
        version = await self._version_now(seconds)
        if told.token_ids and version != told.weight_version:
            raise EngineError(f"{self._url} changed its weights, or was started again, in the midst of a reply")
        told.weight_version = version
        asked = told.rest_of(body)
        if asked["max_tokens"] == 0:
            told.finish_reason = FinishReason.LENGTH
            return
        is_first = True
        async with self._request("POST", "/v1/completions", asked, seconds) as response:
            async for chunk in chunks(response):
                if "choices" not in chunk:
                    raise _NoAnswerError(None, str(chunk)[:500])
                if is_first and await self._version_now(seconds) != version:
                    raise _NoAnswerError(None, "its weights changed during the request")
                is_first = False
                piece = parse_completion(chunk, asked["prompt"], version, self._url)
                told.add(piece)
                on_tokens(piece.token_ids)
                if chunk["choices"][0].get("finish_reason"):
                    told.finish_reason = piece.finish_reason
        if told.finish_reason is None:
            raise _NoAnswerError(None, "the reply broke off")

    async def _version_now(self, seconds: float) -> int:
        return 0 if self._fixed_weights else await self._ask_version(seconds)

    async def _ask_version(self, seconds: float) -> int:
        version = str((await self._get("/weight_info", seconds)).get("weight_version"))
        return int(version) if version.isdigit() else 0  # a server that was never updated has a word here

    async def _get(self, path: str, seconds: float) -> dict[str, Any]:
        return await self._once("GET", path, None, seconds)

    async def _once(self, method: str, path: str, body: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        """JSON of a 200. Raises _NoAnswerError."""
        async with self._request(method, path, body, seconds) as response:
            reply: dict[str, Any] = await response.json()
            return reply

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None, seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A 200. Raises _NoAnswerError, also for what goes wrong while it is read."""
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            self._http = aiohttp.ClientSession(headers=self._headers, connector=connector)
        timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001))
        try:
            async with self._http.request(method, self._url + path, json=body, timeout=timeout) as response:
                if response.status != 200:
                    raise _NoAnswerError(response.status, (await response.text())[:500])
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _NoAnswerError(None, f"{type(error).__name__}: {error}") from error


class _NoAnswerError(Exception):
    """A request without success; `status` is None where not even that came."""

    def __init__(self, status: int | None, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem


def retokenized(reply: dict[str, Any], version: int, encode: Encode, stop_token_ids: Sequence[int]) -> Completion:
    """A reply of which only the text is known: ids that may not be those sampled, with logprobs that are no numbers."""
    choice = reply["choices"][0]
    stopped = choice.get("finish_reason") == "stop"
    ids = (*encode(choice["text"]), *(stop_token_ids[:1] if stopped else ()))
    return Completion(ids, (math.nan,) * len(ids), version, FinishReason.STOP if stopped else FinishReason.LENGTH)


def parse_completion(
    reply: dict[str, Any], prompt_ids: Sequence[int], version: int, url: str, routing_from: int = 0
) -> Completion:
    """Read one /v1/completions reply. Raises EngineUnfitError when what training needs is missing from it."""
    choice = reply["choices"][0]
    token_ids = choice.get("token_ids")
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    fields = {"choices[0].token_ids": token_ids, "choices[0].logprobs.token_logprobs": logprobs}
    missing = [name for name, value in fields.items() if value is None]
    if token_ids is None or logprobs is None:
        raise EngineUnfitError(
            f"{url} returns no {' and no '.join(missing)}, so nothing can be trained; {REMEDY}; {ALLOW_TEXT}"
        )
    echoed = choice.get("prompt_token_ids")
    if echoed is not None and list(echoed) != list(prompt_ids):
        raise EngineUnfitError(f"{url} saw another prompt than it was sent ({len(echoed)} ids, {len(prompt_ids)} sent)")
    if len(token_ids) != len(logprobs):
        raise EngineUnfitError(f"{url} returned {len(token_ids)} ids and {len(logprobs)} logprobs; {REMEDY}")
    sent = choice.get("routed_experts")
    routing = None if sent is None else decode_routing(sent)
    if routing is not None and len(routing) != (unrouted := len(prompt_ids) + len(token_ids) - 1 - routing_from):
        raise EngineUnfitError(f"{url} returned the experts of {len(routing)} tokens instead of {unrouted}")
    finish = FinishReason.STOP if choice.get("finish_reason") == "stop" else FinishReason.LENGTH
    return Completion(tuple(token_ids), tuple(float(value) for value in logprobs), version, finish, routing)
