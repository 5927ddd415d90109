"""A vLLM server by URL: /v1/completions with token ids, never text."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp

from sweyard_api.engine_command import ADAPTER_NAME
from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineError, EngineUnfitError, OnTokens
from sweyard_trainer.engine.vllm_reply import Asked, Encode
from sweyard_trainer.engine.vllm_stream import Told, chunks, json_object

T = TypeVar("T")

RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
"""503 is what vLLM says while it is paused for a weight update."""
RETRY_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 3.0
"""Of an idle connection; vLLM left to itself closes one after 5 s, and a request that meets that is lost."""


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
        vocabulary_size: int | None = None,
    ) -> None:
        """With `fixed_weights` it has version 0 for ever and is not asked. `encode` is for text without ids. Servers
        that are to tell which experts a token took do so of whole replies alone, so those must not be streamed. Ids of
        `vocabulary_size` and above are refused."""
        self._url = url.rstrip("/")
        self._fixed_weights = fixed_weights
        self._encode = encode
        self._streams = streams and encode is None
        self._vocabulary_size = vocabulary_size
        self._model: str | None = None
        self._deadline_seconds = deadline_seconds
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http: aiohttp.ClientSession | None = None
        self._trouble = ""

    @property
    def name(self) -> str:
        return self._url

    @property
    def trouble(self) -> str:
        return self._trouble

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
        asked = self._asked(body, routing_from)
        choice = asked.choice(reply)
        if self._encode is not None and choice.get("token_ids") is None:
            return asked.retokenized(choice, version, self._encode, stop_token_ids)
        return asked.completion(reply, version)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _served_model(self) -> str:
        if self._model is None:
            reply = await self._send(functools.partial(self._get, "/v1/models"), "/v1/models")
            served = [str(model.get("id")) for model in reply.get("data") or ()]
            if not served:
                raise EngineUnfitError(
                    f"{self._url}/v1/models names no model ({str(reply)[:200]}): start vLLM with one"
                )
            self._model = ADAPTER_NAME if ADAPTER_NAME in served else served[0]
        return self._model

    def _asked(self, body: dict[str, Any], routing_from: int = 0) -> Asked:
        return Asked(self._url, body["prompt"], body["max_tokens"], routing_from, self._vocabulary_size)

    async def _send(self, request: Callable[[float], Awaitable[T]], path: str) -> T:
        """One request, tried again while the server is paused, starting or gone, until the deadline.

        `request` is given the seconds that are left.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._deadline_seconds
        while True:
            try:
                answer = await request(give_up_at - loop.time())
                self._trouble = ""
                return answer
            except _NoAnswerError as error:
                self._trouble = f"{self._url}{path} gave no answer: {error.problem}"
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
        rest = told.rest_of(body)
        if rest["max_tokens"] == 0:
            told.finish_reason = FinishReason.LENGTH
            return
        is_first = True
        async with self._request("POST", "/v1/completions", rest, seconds) as response:
            async for chunk in chunks(response):
                if "choices" not in chunk:
                    raise _NoAnswerError(None, str(chunk)[:500])
                if is_first and await self._version_now(seconds) != version:
                    raise _NoAnswerError(None, "its weights changed during the request")
                is_first = False
                asked = replace(self._asked(rest), max_tokens=body["max_tokens"] - len(told.token_ids))
                piece = asked.completion(chunk, version)
                told.add(piece)
                on_tokens(piece.token_ids)
                if asked.choice(chunk).get("finish_reason"):
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
        """The JSON object of a 200. Raises _NoAnswerError."""
        async with self._request(method, path, body, seconds) as response:
            return json_object(await response.read())

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
