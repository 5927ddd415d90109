"""Two ways to a gateway with one behaviour: in this process, or over HTTP."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import aiohttp

from sweyard_sandbox.agents.protocol import ChatSession, Endpoint, FinishReason, Message, Reply
from sweyard_sandbox.runtime import Sandbox
from sweyard_trainer.engine.engine import Engine, EngineError, EngineUnfitError
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import TemplateUnfitError
from sweyard_trainer.gateway.sandbox_doors import SandboxDoors
from sweyard_trainer.gateway.session import SessionRecord, SessionUnknownError
from sweyard_trainer.gateway.wire import decode_record

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 15.0
"""Of an idle connection; far less than the gateway's own patience, since calls are never sent twice."""
UNFIT = {"engine_unfit": EngineUnfitError, "template_unfit": TemplateUnfitError}
"""Codes of answers that every call would have."""
ADMIN_SECONDS = 600.0
"""For an answer of the admin port, which asks engines before it gives one."""


class GatewayClient(Protocol):
    """What a rollout worker needs of a gateway."""

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        """Sample with `version` from here on, on the engines that confirm it: the first so many (None: all); the others
        end their replies. Raises EngineError, EngineUnfitError."""
        ...

    async def open_session(self, session_id: str, *, temperature: float, seed: int) -> ChatSession:
        """Begin an attempt under an id that was never used before. Raises EngineError."""
        ...

    async def finish_session(self, session_id: str) -> SessionRecord:
        """End it and take its tokens. Raises SessionUnknownError, EngineError."""
        ...

    async def close(self) -> None:
        """Free connections and embedded engines."""
        ...


@dataclass(frozen=True, slots=True)
class InProcessSession:
    """ReachableSession of a gateway in this process."""

    gateway: Gateway
    session_id: str
    token: str
    doors: SandboxDoors
    tools: str = ""

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        """See ChatSession."""
        return (await self.gateway.chat(self.session_id, messages, max_tokens=max_tokens, tools=self.tools)).reply

    def offering(self, tools: str) -> ChatSession:
        """See ToolSession."""
        return replace(self, tools=tools)

    async def endpoint(self, sandbox: Sandbox) -> Endpoint:
        """See ReachableSession: a port within the sandbox."""
        return Endpoint(await self.doors.open(self.session_id, sandbox), self.token)


class InProcessGateway:
    """GatewayClient of a gateway in this process."""

    def __init__(
        self, gateway: Gateway, engines: Sequence[Engine], *, new_token: Callable[[], str], lineage: str = ""
    ) -> None:
        self._gateway = gateway
        self._engines = engines
        self._lineage = lineage
        self._new_token = new_token
        self._doors = SandboxDoors(gateway)

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        chosen, others = split_at(self._engines, num_engines)
        await self._gateway.use_engines(chosen, version, self._lineage, [engine.name for engine in others])

    async def open_session(self, session_id: str, *, temperature: float, seed: int) -> ChatSession:
        if not self._gateway.has_engines:
            raise EngineError(f"no engine serves weight version {self._gateway.weight_version}")
        token = self._new_token()
        self._gateway.create_session(session_id, token, temperature=temperature, seed=seed)
        return InProcessSession(self._gateway, session_id, token, self._doors)

    async def finish_session(self, session_id: str) -> SessionRecord:
        await self._doors.close(session_id)
        return self._gateway.finish_session(session_id)

    async def close(self) -> None:
        await self._doors.close_all()
        for engine in self._engines:
            await engine.close()


@dataclass(frozen=True, slots=True)
class HttpSession:
    """ReachableSession over the public port; a program in a sandbox uses the same `url` and `token`."""

    http: aiohttp.ClientSession
    url: str
    token: str
    tools: str = ""

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        """See ChatSession. Never sent twice: a repeated call would be a second reply."""
        body: dict[str, Any] = {
            "model": "policy",
            "messages": [{"role": message.role, "content": message.content} for message in messages],
        }
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        if self.tools:
            body["tools"] = json.loads(self.tools)
        headers = {"Authorization": f"Bearer {self.token}"}
        status, reply = await _call(self.http, "POST", f"{self.url}/v1/chat/completions", body, headers)
        if status == 401:
            raise SessionUnknownError(_message(reply))
        if (unfit := UNFIT.get(reply.get("error", {}).get("code"))) is not None:
            raise unfit(_message(reply))
        if status != 200:
            raise EngineError(_message(reply))
        sampled = reply["choices"][0]["sampled"]
        return Reply(sampled["text"], FinishReason(sampled["finish_reason"]), reply["usage"]["completion_tokens"])

    def offering(self, tools: str) -> ChatSession:
        """See ToolSession."""
        return replace(self, tools=tools)

    async def endpoint(self, sandbox: Sandbox) -> Endpoint:
        """See ReachableSession."""
        return Endpoint(self.url, self.token)


class HttpGateway:
    """GatewayClient of a gateway elsewhere. Tells a restarted gateway again which weights to use."""

    def __init__(
        self,
        url: str,
        admin_url: str,
        engine_urls: Sequence[str],
        *,
        new_token: Callable[[], str],
        lineage: str = "",
    ) -> None:
        """`lineage` names the life of the run: the same version may be other weights in another one."""
        self._url = url.rstrip("/")
        self._admin_url = admin_url.rstrip("/")
        self._engine_urls = list(engine_urls)
        self._lineage = lineage
        self._new_token = new_token
        self._version = 0
        self._num_engines: int | None = None
        self._http: aiohttp.ClientSession | None = None

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        self._version, self._num_engines = version, num_engines
        chosen, others = split_at(self._engine_urls, num_engines)
        body = {"version": version, "engines": chosen, "ending": others, "lineage": self._lineage}
        status, reply = await self._admin("PUT", "/weights", body)
        if status == 424:
            raise EngineUnfitError(_message(reply))
        if status != 200:
            raise EngineError(_message(reply))

    async def open_session(self, session_id: str, *, temperature: float, seed: int) -> ChatSession:
        token = self._new_token()
        body = {"id": session_id, "token": token, "temperature": temperature, "seed": seed}
        body["weight_version"] = self._version
        status, reply = await self._admin("POST", "/sessions", body)
        if status == 409 and "weight_version" in reply:
            await self.use_weights(self._version, self._num_engines)
            status, reply = await self._admin("POST", "/sessions", body)
        if status == 409 and "message" in reply:
            raise ValueError(_message(reply))
        if status != 201:
            raise EngineError(_message(reply))
        return HttpSession(self._client(), self._url, token)

    async def finish_session(self, session_id: str) -> SessionRecord:
        status, reply = await self._admin("POST", "/sessions/finish", {"id": session_id})
        if status == 404:
            raise SessionUnknownError(_message(reply))
        if status != 200:
            raise EngineError(_message(reply))
        return await asyncio.to_thread(decode_record, reply)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    def _client(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            self._http = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        return self._http

    async def _admin(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Raises EngineError, also for a gateway that does not answer."""
        try:
            async with asyncio.timeout(ADMIN_SECONDS):
                return await _call(self._client(), method, self._admin_url + path, body, {})
        except TimeoutError as error:
            raise EngineError(f"gateway {self._admin_url}{path} did not answer within {ADMIN_SECONDS:g} s") from error


def split_at(engines: Sequence[T], count: int | None) -> tuple[list[T], list[T]]:
    """The first so many, or all, and the others."""
    return list(engines[:count]), list(engines[count:]) if count is not None else []


async def _call(
    http: aiohttp.ClientSession, method: str, url: str, body: dict[str, Any], headers: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    try:
        async with http.request(method, url, json=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)
    except (aiohttp.ClientError, ValueError) as error:
        raise EngineError(f"gateway {url}: {type(error).__name__}: {error}") from error


def _message(reply: dict[str, Any]) -> str:
    return str(reply.get("message") or reply.get("error", {}).get("message") or reply)
