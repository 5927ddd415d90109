"""Launcher: asks the spawner process for sandboxes, from asyncio."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from typing import Any

from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtimes.local.isolation import Layout

_MAX_ANSWER_BYTES = 65_536
_RECEIVE_BYTES = 262_144
_HARMLESS_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
"""All that the spawner, and hence the memory of sandboxes, gets of the host's environment."""


class SocketChannel:
    """One end of a socket pair whose other end is a driver's stdin and stdout."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        try:
            async with self._sending:
                await self._loop.sock_sendall(self._stream, data)
        except OSError as error:
            raise ChannelError(str(error)) from error

    async def receive(self) -> bytes:
        """Some bytes; empty once the driver has ended."""
        try:
            return await self._loop.sock_recv(self._stream, _RECEIVE_BYTES)
        except OSError as error:
            raise ChannelError(str(error)) from error

    async def close(self) -> None:
        """Close both directions; who waits in `receive` sees the end."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()


@dataclass(slots=True)
class Launcher:
    """Starts the spawner at its first use; one request at a time."""

    _control: socket.socket | None = None
    _process: asyncio.subprocess.Process | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def spawn(
        self, argv: list[str], *, layout: Layout | None, environment: dict[str, str], directory: str
    ) -> tuple[int, socket.socket]:
        """A new sandbox's first process and its stream. Raises OSError with the step that the system refused."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET if layout else socket.SOCK_STREAM)
        ours.setblocking(False)
        request = {
            "op": "spawn",
            "layout": layout and asdict(layout),
            "argv": argv,
            "environment": environment,
            "directory": directory,
        }
        try:
            answer = await self._ask(request, [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if "error" in answer:
            ours.close()
            raise OSError(answer["error"])
        return answer["pid"], ours

    async def kill(self, pid: int) -> None:
        """End a sandbox with all its processes."""
        if self._control is not None:
            await self._ask({"op": "kill", "pid": pid}, [])

    async def make_folder(self, parent: str | None = None) -> str:
        """A new folder that is removed with the spawner, also if this process is killed."""
        folder = tempfile.mkdtemp(prefix="sweyard-", dir=parent)
        await self._ask({"op": "own", "folder": folder}, [])
        return folder

    async def close(self) -> None:
        """End the spawner, and with it all sandboxes and folders."""
        if self._control is None or self._process is None:
            return
        self._control.close()
        self._control = None
        await self._process.wait()

    async def _ask(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        # Shielded: an answer that its asker no longer awaits must not be taken for the next one's.
        return await asyncio.shield(asyncio.ensure_future(self._exchange(request, [os.dup(d) for d in descriptors])))

    async def _exchange(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        async with self._turn:
            try:
                control = await self._start()
                socket.send_fds(control, [json.dumps(request).encode()], descriptors)
                data = await asyncio.get_running_loop().sock_recv(control, _MAX_ANSWER_BYTES)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        if not data:
            raise InfrastructureError(FailureReason.ERROR, "the process that starts local sandboxes has ended")
        answer: dict[str, Any] = json.loads(data)
        return answer

    async def _start(self) -> socket.socket:
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "sweyard_sandbox.runtimes.local.spawner",
                    str(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    env={name: os.environ[name] for name in _HARMLESS_VARIABLES if name in os.environ},
                )
            self._control = ours
        return self._control
