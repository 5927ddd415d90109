"""Many sandboxes in one process: bounded memory, and a fair share for each."""

import asyncio
import os
import shutil
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.runtimes.docker.process_channel import ProcessChannel

CAP_BYTES = 10_000
PORTION = b"x" * 32_768


class FloodingChannel:
    """Answers each command with a flood of output, as fast as it is read."""

    def __init__(self, secret: str, portions: int) -> None:
        self._secret = secret
        self._portions = portions
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(maxsize=2)
        self._writing: list[asyncio.Task[None]] = []

    async def send(self, data: bytes) -> None:
        if data.startswith(b"run "):
            self._writing.append(asyncio.create_task(self._flood(data.split()[1].decode())))
        else:
            await self._answers.put(self._mark("hello 1 /spool a.1.1 1"))

    async def receive(self) -> bytes:
        return await self._answers.get()

    async def close(self) -> None:
        for task in self._writing:
            task.cancel()

    async def _flood(self, command_id: str) -> None:
        for _ in range(self._portions):
            await self._answers.put(PORTION)
        await self._answers.put(self._mark(f"end {command_id} 0 0 0"))

    def _mark(self, words: str) -> bytes:
        return f"-{self._secret}-{words}\n".encode()


class OneChannel:
    """Connector to a channel that exists; it does not break."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def connect(self) -> Channel:
        return self._channel

    async def explain(self) -> InfrastructureError | None:
        raise ChannelError("a stream broke that never does")


async def run(client: DriverClient, command: str, timeout_seconds: float = 60) -> bytes:
    result = await client.run(command, timeout_seconds=timeout_seconds, output_cap_bytes=CAP_BYTES)
    return result.output


async def test_512_streams_that_flood_at_once_hold_no_more_than_their_caps() -> None:
    tracemalloc.start()
    try:
        clients = []
        for number in range(512):
            secret = f"{number:016x}"
            clients.append(DriverClient(OneChannel(FloodingChannel(secret, portions=8)), secret))
        await asyncio.gather(*(client.open() for client in clients))
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        outputs = await asyncio.gather(*(run(client, "flood") for client in clients))
        _, peak = tracemalloc.get_traced_memory()
        assert {len(output) for output in outputs} == {CAP_BYTES}
        # For each: the result, what the parser holds, a portion on its way, and the objects of one command.
        assert peak - before < 512 * (2 * CAP_BYTES + len(PORTION) + 40_000)
        await asyncio.gather(*(client.close() for client in clients))
    finally:
        tracemalloc.stop()


class SlowToOpen(OneChannel):
    """Counts the streams that are being opened, over all connectors."""

    opening: ClassVar[list[str]] = []
    most_at_once = 0

    def __init__(self, secret: str) -> None:
        super().__init__(FloodingChannel(secret, portions=0))
        self._secret = secret

    async def connect(self) -> Channel:
        self.opening.append(self._secret)
        SlowToOpen.most_at_once = max(SlowToOpen.most_at_once, len(self.opening))
        await asyncio.sleep(0)
        self.opening.remove(self._secret)
        return await super().connect()


async def test_512_streams_are_opened_in_turns() -> None:
    turns = asyncio.Semaphore(8)
    secrets = [f"{number:016x}" for number in range(512)]
    clients = [DriverClient(SlowToOpen(secret), secret, turns=turns) for secret in secrets]
    await asyncio.gather(*(client.open() for client in clients))
    assert SlowToOpen.most_at_once == 8
    outputs = await asyncio.gather(*(run(client, "nothing") for client in clients))
    assert outputs == [b""] * 512
    await asyncio.gather(*(client.close() for client in clients))


class CountingChannel(ProcessChannel):
    """Counts what comes."""

    num_received = 0

    async def receive(self) -> bytes:
        data = await super().receive()
        self.num_received += len(data)
        return data


@asynccontextmanager
async def open_shell(directory: Path, name: str) -> AsyncIterator[tuple[DriverClient, CountingChannel]]:
    spool = f"SWEYARD_SPOOL={directory / name}"
    channel = await CountingChannel.start("env", spool, shutil.which("sh") or "sh", "-c", wire.BOOTSTRAP)
    client = DriverClient(OneChannel(channel), os.urandom(8).hex())
    await client.open()
    yield client, channel
    await client.close()


async def test_a_flood_stops_in_the_sandbox_and_the_command_goes_on(tmp_path: Path) -> None:
    async with open_shell(tmp_path, "one") as (client, channel):
        result = await client.run(
            "head -c 1000000000 /dev/zero; exit 5", timeout_seconds=120, output_cap_bytes=CAP_BYTES
        )
        assert (result.exit_code, result.output, result.truncated) == (5, bytes(CAP_BYTES), True)
        assert channel.num_received < 2_000_000
        stored = sum(path.stat().st_size for path in (tmp_path / "one").iterdir())
        assert stored < 2_000_000
        assert await run(client, "echo next") == b"next\n"


async def test_a_flood_in_one_sandbox_does_not_hold_up_another(tmp_path: Path) -> None:
    async with open_shell(tmp_path, "loud") as (loud, _), open_shell(tmp_path, "quiet") as (quiet, _):
        flood = asyncio.create_task(run(loud, "while [ ! -e done ]; do head -c 100000 /dev/zero; done", 300))
        for number in range(30):
            assert await run(quiet, f"echo {number}") == b"%d\n" % number
        assert not flood.done()
        flood.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flood
        assert await run(loud, "echo next") == b"next\n"
