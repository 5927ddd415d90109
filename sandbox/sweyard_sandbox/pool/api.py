"""A light client of the API server: JSON requests, watches and websockets over one aiohttp session each.

The hot path is a claim; the generated client spends more on it than the API server does.
"""

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import aiohttp

from sweyard_api.interpreter import LEAVES_TLS_OPEN
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.pool.credentials import Credentials

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_CONNECT_SECONDS = 10.0
_REQUEST_SECONDS = 30.0
_NUM_CONNECTIONS = 32
_BUSY_TRIES = 6
_KEEP_ALIVE_SECONDS = 75.0
"""A new connection costs a TLS handshake, which is more than a claim; the API server keeps idle ones for 90 s."""
_PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds, number: a peer that is gone without a word is noticed after 25 s of silence."""
_MAX_WEBSOCKET_BYTES = 16 * 1024 * 1024
_USER_AGENT = {"User-Agent": "sweyard-sandbox"}


class ApiError(SweyardError):
    """The API server said no."""

    def __init__(self, status: int, reason: str, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds

    @property
    def is_passing(self) -> bool:
        """The server's own trouble or load: the request may have been carried out, and may be repeated."""
        return self.status >= 500 or self.status == 429


class UnreachableError(SweyardError, ConnectionError):
    """No answer: the request may or may not have been carried out."""


class ApiClient:
    """Requests as one user. `clock` is monotonic seconds; `rng` spreads repeated requests."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._credentials = credentials
        self._clock = clock
        self._rng = rng or random.Random()
        self._requests = self._open_session(_NUM_CONNECTIONS)
        self._streams = self._open_session(0)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        is_urgent: bool = False,
    ) -> dict[str, Any]:
        """The answer's object. Repeats what the server was too busy to begin, and once with a fresh token.

        An urgent request does not queue for a connection behind hundreds of others.
        Raises ApiError, UnreachableError.
        """
        for attempt in range(_BUSY_TRIES):
            try:
                return await self._request_once(method, path, body, params, content_type, is_urgent=is_urgent)
            except ApiError as error:
                is_last = attempt == _BUSY_TRIES - 1
                if error.status == 401 and attempt == 0 and self._credentials.token_source.forget():
                    continue
                if error.status != 429 or is_last:
                    raise
                pause_seconds = error.retry_after_seconds or 0.1 * 2**attempt
                # All that were refused at once would come back at once.
                await asyncio.sleep(pause_seconds * self._rng.uniform(1.0, 1.5))
        raise AssertionError("unreachable")

    async def read_text(self, path: str) -> str:
        """What is no JSON, such as /metrics. Raises ApiError, UnreachableError."""
        return (await self._send("GET", path, None, None, "text/plain")).decode()

    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        silence_seconds: float,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Events of a watch, until the server ends it. Raises ApiError; UnreachableError also after silence.

        `on_open` is called when it begins, which may be long before the first event.
        """
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=silence_seconds)
        headers = await self._authorization()
        try:
            async with _living(self._streams).get(
                self._credentials.server + path, params=params, timeout=timeout, headers=headers
            ) as reply:
                if reply.status == 401:  # whoever watches begins again
                    self._credentials.token_source.forget()
                if reply.status >= 400:
                    raise _api_error(reply.status, await reply.read(), reply.headers)
                on_open()
                pending = b""
                async for chunk in reply.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        yield json.loads(line)
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            raise UnreachableError(f"watch of {path}: {error!r}") from error

    async def websocket(
        self, path: str, params: list[tuple[str, str]], *, protocols: tuple[str, ...], heartbeat_seconds: float
    ) -> aiohttp.ClientWebSocketResponse:
        """An open websocket, after a second try with a fresh token. Raises ApiError for a refusal, UnreachableError."""
        try:
            return await self._open_websocket(path, params, protocols, heartbeat_seconds)
        except ApiError as error:
            if error.status != 401 or not self._credentials.token_source.forget():
                raise
        return await self._open_websocket(path, params, protocols, heartbeat_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self._requests.close(), self._streams.close())

    async def _open_websocket(
        self, path: str, params: list[tuple[str, str]], protocols: tuple[str, ...], heartbeat_seconds: float
    ) -> aiohttp.ClientWebSocketResponse:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                headers = await self._authorization()
                return await _living(self._streams).ws_connect(
                    self._credentials.server + path,
                    params=params,
                    protocols=protocols,
                    headers=headers,
                    heartbeat=heartbeat_seconds,
                    max_msg_size=_MAX_WEBSOCKET_BYTES,
                    compress=0,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(error.status, "HandshakeRefused", error.message) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"websocket {path}: {error!r}") from error

    async def _request_once(
        self,
        method: str,
        path: str,
        body: Any,
        params: Mapping[str, str] | None,
        content_type: str,
        *,
        is_urgent: bool,
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            sent = await self._send(method, path, data, params, content_type, is_urgent=is_urgent)
            answer: dict[str, Any] = json.loads(sent)
        except json.JSONDecodeError as error:
            raise UnreachableError(f"{method} {path}: {error!r}") from error
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, str] | None,
        content_type: str,
        *,
        is_urgent: bool = False,
    ) -> bytes:
        headers = {"Content-Type": content_type, **await self._authorization()}
        url = self._credentials.server + path
        # Streams have as many connections as there are streams.
        session = self._streams if is_urgent else self._requests
        try:
            async with _living(session).request(method, url, params=params, data=data, headers=headers) as reply:
                answer = await reply.read()
                if reply.status >= 400:
                    raise _api_error(reply.status, answer, reply.headers)
                return answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {error!r}") from error

    async def _authorization(self) -> dict[str, str]:
        token = await self._credentials.token_source.token(self._clock())
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _open_session(self, num_connections: int) -> aiohttp.ClientSession:
        ssl = self._credentials.ssl_context
        connector = aiohttp.TCPConnector(
            limit=num_connections,
            ssl=True if ssl is None else ssl,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            enable_cleanup_closed=LEAVES_TLS_OPEN,
            socket_factory=_open_probed_socket,
        )
        timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS, sock_connect=_CONNECT_SECONDS)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_USER_AGENT)


def _living(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """Raises UnreachableError for one that was closed, which aiohttp takes for a fault of the program: whoever closes
    does not wait for all that still ask."""
    if session.closed:
        raise UnreachableError("the client is closed")
    return session


def _open_probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has them
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _api_error(status: int, data: bytes, headers: Mapping[str, str]) -> ApiError:
    try:
        answer = json.loads(data)
        reason, message = answer.get("reason", ""), answer.get("message", "")
    except (json.JSONDecodeError, AttributeError):
        reason, message = "", data.decode("utf-8", "replace")[:300]
    wait = headers.get("Retry-After", "")
    return ApiError(status, reason, message, float(wait) if wait.isdigit() else 0.0)
