"""Shells that run the driver here, one a stream, as streams into one container would be."""

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.errors import InfrastructureError

SHELLS = [shell for shell in ("dash", "busybox", "bash") if shutil.which(shell)]
"""Each is /bin/sh somewhere."""


async def end_process(process: asyncio.subprocess.Process) -> None:
    """At once: background children may hold its pipes for long, and asyncio has no other way not to wait for those."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()


class PipeChannel:
    """A shell process; `cut` breaks the stream as a network would."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.is_cut = False
        self.drop_sends = False

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        if self.is_cut:
            raise ChannelError("cut")
        if not self.drop_sends:
            try:
                self.process.stdin.write(data)
                await self.process.stdin.drain()
            except ConnectionError as error:
                raise ChannelError(str(error)) from error

    async def receive(self) -> bytes:
        assert self.process.stdout is not None
        data = await self.process.stdout.read(65536)
        if self.is_cut:
            raise ChannelError("cut")
        return data

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        self.process.stdout.feed_eof()

    def cut(self) -> None:
        self.is_cut = True
        assert self.process.stdout is not None
        self.process.stdout.feed_eof()  # what was on its way is lost


class Shells:
    """Connector that starts one process a stream, all in one spool, as streams into one container would be."""

    def __init__(self, shell: str, directory: Path) -> None:
        programs = directory / "bin"
        programs.mkdir()
        (programs / "sh").symlink_to(shutil.which(shell) or shell)
        self.has_own_tools = shell == "busybox"
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SWEYARD_SPOOL": str(directory / "spool")}
        self.channels: list[PipeChannel] = []
        self._starts: list[asyncio.Task[asyncio.subprocess.Process]] = []
        self.refuse = 0
        self.death: InfrastructureError | None = None

    async def connect(self) -> PipeChannel:
        if self.refuse:
            self.refuse -= 1
            raise ChannelError("refused")
        start = asyncio.create_task(
            asyncio.create_subprocess_exec("sh", "-c", wire.BOOTSTRAP, stdin=-1, stdout=-1, env=self.environment)
        )
        self._starts.append(start)
        self.channels.append(PipeChannel(await asyncio.shield(start)))  # who connects may be cancelled
        return self.channels[-1]

    async def end(self) -> None:
        """Also those whose stream was not wanted any more before it was there."""
        for channel in self.channels:
            await channel.close()
        for start in self._starts:
            await end_process(await start)

    async def explain(self) -> InfrastructureError | None:
        return self.death
