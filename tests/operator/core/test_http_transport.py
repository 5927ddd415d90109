"""The real transport against a real socket: headers, chunks, silence and closed doors."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from sweyard_operator.credentials import Credentials, StaticToken
from sweyard_operator.errors import ForbiddenError, StreamDeadError, UnreachableError
from sweyard_operator.transport import HttpTransport

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[HttpTransport]]


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Serve]:
    closing: list[Callable[[], Awaitable[None]]] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> HttpTransport:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        transport = HttpTransport(Credentials(f"http://127.0.0.1:{port}", StaticToken("secret"), None, "ns"))
        closing.extend([transport.close, runner.cleanup])
        return transport

    yield start
    for close in closing:
        await close()


async def test_a_request_carries_token_type_and_body(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer secret"
        assert request.query == {"force": "true"}
        return web.Response(status=201, text=f"{request.method} {request.content_type} {await request.text()}")

    transport = await serve(handler)
    reply = await transport.request(
        "PATCH", "/api/x", params={"force": "true"}, body=b"{}", content_type="application/merge-patch+json"
    )
    assert (reply.status, reply.body) == (201, b"PATCH application/merge-patch+json {}")


async def test_lines_arrive_whole_whatever_the_chunks(serve: Serve) -> None:
    long = b"y" * 300_000

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in (b"on", b"e\ntwo\nth", b"ree\n", long, b"\n"):
            await response.write(chunk)
            await asyncio.sleep(0.01)
        return response

    transport = await serve(handler)
    lines = [line async for line in transport.stream("/watch", params={}, idle_timeout_seconds=5.0)]
    assert lines == [b"one", b"two", b"three", long]


async def test_a_silent_watch_is_noticed(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(30)
        return response

    transport = await serve(handler)
    lines: list[bytes] = []

    async def listen() -> None:
        async for line in transport.stream("/watch", params={}, idle_timeout_seconds=0.2):
            lines.append(line)

    with pytest.raises(StreamDeadError):
        await listen()
    assert lines == [b"one"]


async def test_a_refused_watch_is_typed(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "no"}, status=403)

    transport = await serve(handler)
    with pytest.raises(ForbiddenError, match="no"):
        await anext(transport.stream("/watch", params={}, idle_timeout_seconds=5.0))


async def test_a_cut_watch_is_unreachable(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.close()
        return response

    transport = await serve(handler)

    async def listen() -> list[bytes]:
        return [line async for line in transport.stream("/watch", params={}, idle_timeout_seconds=5.0)]

    with pytest.raises(UnreachableError):
        await listen()


async def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    transport = HttpTransport(Credentials(f"http://127.0.0.1:{port}", StaticToken(None), None, "ns"))
    with pytest.raises(UnreachableError):
        await transport.request("GET", "/", params={})
    await transport.close()
