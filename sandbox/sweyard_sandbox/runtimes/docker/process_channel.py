"""ProcessChannel: a program's stdin and stdout as a byte stream, for `docker exec -i`."""

import asyncio
import contextlib
from typing import Self

from sweyard_sandbox.driver.channel import ChannelError

_RECEIVE_BYTES = 262_144


class ProcessChannel:
    """Owns the program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *words: str) -> Self:
        """Start a program."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
        )

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise ChannelError(str(error)) from error

    async def receive(self) -> bytes:
        """Some bytes; empty once the program has ended."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(_RECEIVE_BYTES)

    async def close(self) -> None:
        """End the program."""
        await end(self._process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Close its standard input, kill it, wait for it; it may have ended."""
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
