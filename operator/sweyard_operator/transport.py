"""Bytes to and from the API server: the seam between `cluster.py` and the network (or the shipped fake)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from sweyard_api.interpreter import LEAVES_TLS_OPEN
from sweyard_operator.credentials import Credentials
from sweyard_operator.errors import StreamDeadError, UnreachableError, api_error

_MAX_REQUEST_CONNECTIONS = 64
_CONNECT_TIMEOUT_SECONDS = 10.0
_REQUEST_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Response:
    """One whole reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Implemented by HttpTransport and by testing.fake_api.FakeApiServer."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Response:
        """One request, no retries, any status. Raises UnreachableError if there was no reply."""
        ...

    def stream(self, path: str, *, params: Mapping[str, str], idle_timeout_seconds: float) -> AsyncIterator[bytes]:
        """Lines of a watch until the server ends it.

        Raises ApiError for a refusal, UnreachableError for a broken connection, StreamDeadError for silence.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def open_session(credentials: Credentials, *, max_connections: int = 0) -> aiohttp.ClientSession:
    """A session that authorises each request with the token of the moment; 0 connections means no limit."""

    async def authorize(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if (token := await credentials.token_source.token()) is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        return await handler(request)

    ssl_context = True if credentials.ssl_context is None else credentials.ssl_context
    connector = aiohttp.TCPConnector(limit=max_connections, ssl=ssl_context, enable_cleanup_closed=LEAVES_TLS_OPEN)
    return aiohttp.ClientSession(
        connector=connector, headers={"User-Agent": "sweyard-operator"}, middlewares=(authorize,)
    )


class HttpTransport:
    """HTTP by aiohttp; watches have connections of their own, so they never starve requests."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._requests = open_session(credentials, max_connections=_MAX_REQUEST_CONNECTIONS)
        self._watches = open_session(credentials)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Response:
        """One request, no retries, any status. Raises UnreachableError if there was no reply."""
        timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_SECONDS, sock_connect=_CONNECT_TIMEOUT_SECONDS)
        headers = {"Content-Type": content_type}
        url = self._credentials.server + path
        try:
            async with self._requests.request(
                method, url, params=params, data=body, headers=headers, timeout=timeout
            ) as reply:
                return Response(reply.status, reply.headers, await reply.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {error!r}") from error

    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_timeout_seconds: float
    ) -> AsyncIterator[bytes]:
        """Lines of a watch until the server ends it."""
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_TIMEOUT_SECONDS, sock_read=idle_timeout_seconds)
        url = self._credentials.server + path
        try:
            async with self._watches.get(url, params=params, timeout=timeout) as reply:
                if reply.status >= 400:
                    raise api_error(reply.status, await reply.read(), reply.headers)
                pending = b""
                async for chunk in reply.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        yield line
        except aiohttp.SocketTimeoutError as error:
            raise StreamDeadError(f"watch of {path} was silent for {idle_timeout_seconds:g} s") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"watch of {path}: {error!r}") from error

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self._requests.close(), self._watches.close())
