"""A stream that was opened again may lead into another container: no command may run there."""

import asyncio

import pytest

from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.errors import FailureReason, InfrastructureError


class Container:
    """Greets as the driver in a container that began at `born`, answers nothing else, and breaks on demand."""

    def __init__(self, secret: str, born: int) -> None:
        self.sent: list[bytes] = []
        self.broken = asyncio.Event()
        self._greeting = f"-{secret}-hello 1 /spool a.1.1 {born}\n".encode()

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def receive(self) -> bytes:
        if self._greeting:
            greeting, self._greeting = self._greeting, b""
            return greeting
        await self.broken.wait()
        raise ChannelError("broken")

    async def close(self) -> None:
        self.broken.set()


class Restarted:
    """Connector: the first container, then the second one; the runtime hears of it two questions later."""

    def __init__(self, containers: list[Container], death: InfrastructureError | None) -> None:
        self._containers = iter(containers)
        self._death = death
        self._questions = 0

    async def connect(self) -> Channel:
        return next(self._containers)

    async def explain(self) -> InfrastructureError | None:
        self._questions += 1
        return self._death if self._questions > 2 else None


@pytest.mark.parametrize(
    ("death", "reason"),
    [
        (InfrastructureError(FailureReason.OOM_KILLED, "for memory"), FailureReason.OOM_KILLED),
        (None, FailureReason.ERROR),
    ],
    ids=["told", "untold"],
)
async def test_no_command_runs_in_the_container_that_replaced_another(
    death: InfrastructureError | None, reason: FailureReason
) -> None:
    first, second = Container("secret", 100), Container("secret", 200)
    client = DriverClient(Restarted([first, second], death), "secret")
    await client.open()
    running = asyncio.create_task(client.run("rm -rf /", timeout_seconds=60, output_cap_bytes=1_000))
    while len(first.sent) < 2:
        await asyncio.sleep(0.01)
    first.broken.set()
    with pytest.raises(InfrastructureError) as failure:
        await running
    assert failure.value.reason is reason
    with pytest.raises(InfrastructureError):
        await client.run("true", timeout_seconds=5, output_cap_bytes=1_000)
    assert len(second.sent) == 1, "only the driver itself"
    await client.close()


async def test_a_stream_reopened_into_the_same_container_goes_on() -> None:
    first, second = Container("secret", 100), Container("secret", 100)
    client = DriverClient(Restarted([first, second], None), "secret")
    await client.open()
    running = asyncio.create_task(client.run("true", timeout_seconds=60, output_cap_bytes=1_000))
    while len(first.sent) < 2:
        await asyncio.sleep(0.01)
    first.broken.set()
    while len(second.sent) < 2:
        await asyncio.sleep(0.01)
    assert second.sent[1].startswith(b"status ")
    running.cancel()
    await client.close()
