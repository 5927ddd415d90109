"""The exec endpoint of an API server in front of real shells, and what goes wrong on the way to them."""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from tests.sandbox.runtimes.shells import end_process

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
PROTOCOL = "v4.channel.k8s.io"
UID = "uid-1"
ALIVE = {"phase": "Running", "containerStatuses": [{"name": "sandbox", "state": {"running": {}}}]}


class ExecServer:
    """One pod, whose container shares the file system with the test; each stream is a shell of its own."""

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.pod_status: dict[str, Any] | None = ALIVE
        self.refusals: list[int] = []
        """Status codes of the next attempts to open a stream."""
        self.end_with: bytes | None = None
        """What the error stream says of the next stream, in place of a process."""
        self.noise: list[bytes] = []
        """Messages that each stream begins with."""
        self.streams: list[web.WebSocketResponse] = []
        self.is_silent = False
        """Connections stay open and nothing passes."""
        self.processes: list[asyncio.subprocess.Process] = []
        self._closing: list[asyncio.Future[bool]] = []

    def build(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/ns/pods/pod/exec", self.serve_exec)
        app.router.add_get("/api/v1/namespaces/ns/pods/pod", self._get_pod)
        return app

    async def close(self) -> None:
        for process in self.processes:
            await end_process(process)

    def cut(self, code: int | None) -> None:
        """End all streams with a close code; None: without a word."""
        for stream in self.streams:
            if code is None:
                abort(stream)
            else:
                self._closing.append(asyncio.ensure_future(stream.close(code=code)))

    async def _get_pod(self, request: web.Request) -> web.Response:
        if self.pod_status is None:
            return web.json_response({"reason": "NotFound"}, status=404)
        return web.json_response({"metadata": {"name": "pod", "uid": UID}, "status": self.pod_status})

    async def serve_exec(self, request: web.Request) -> web.StreamResponse:
        """A stream to the pod."""
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        stream = web.WebSocketResponse(protocols=(PROTOCOL,), autoping=False)
        await stream.prepare(request)
        for message in self.noise:
            await stream.send_bytes(message)
        if (said := self.end_with) is not None:
            self.end_with = None
            await stream.send_bytes(bytes([ERROR]) + said)
            await stream.close()
            return stream
        self.streams.append(stream)
        await self._serve(stream, request.query.getall("command"))
        self.streams.remove(stream)
        return stream

    async def _serve(self, stream: web.WebSocketResponse, command: list[str]) -> None:
        environment = {"PATH": os.environ["PATH"], "SWEYARD_SPOOL": str(self.spool)}
        process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, env=environment)
        self.processes.append(process)
        assert process.stdin is not None
        writing = asyncio.create_task(self._copy_output(process, stream))
        async for message in stream:
            while self.is_silent:
                await asyncio.sleep(0.01)
            if message.type is WSMsgType.PING:
                await stream.pong(message.data)
            elif message.type is WSMsgType.BINARY and message.data[0] == STDIN:
                process.stdin.write(message.data[1:])
        process.stdin.close()
        writing.cancel()

    async def _copy_output(self, process: asyncio.subprocess.Process, stream: web.WebSocketResponse) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            while data := await process.stdout.read(32_768):
                while self.is_silent:
                    await asyncio.sleep(0.01)
                await stream.send_bytes(bytes([STDOUT]) + data)
            await stream.send_bytes(bytes([ERROR]) + status("Success"))
            await stream.close()


def status(kind: str, message: str = "", reason: str = "") -> bytes:
    return json.dumps({"status": kind, "message": message, "reason": reason}).encode()


def abort(stream: web.WebSocketResponse) -> None:
    transport = stream._req.transport if stream._req else None  # aiohttp offers no other way to a broken connection
    if transport is not None:
        transport.abort()
