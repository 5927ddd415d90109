"""What the client makes of a driver that cannot know whether another one began the command."""

import asyncio
from collections.abc import Callable

import pytest

from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.testing import is_run
from sweyard_sandbox.errors import CommandMayHaveRunError, InfrastructureError

Answer = Callable[[str, str], list[str]]
"""From a request's verb and id to marks."""


class Scripted:
    """Greets with a ledger and answers as told; breaks where the answer is `break`."""

    def __init__(self, ledger: str, answer: Answer) -> None:
        self.verbs: list[str] = []
        self._answer = answer
        self._marks = asyncio.Queue[str]()
        self._marks.put_nowait(f"hello 1 /spool {ledger} 1")
        self._is_driver_sent = False

    async def send(self, data: bytes) -> None:
        if not self._is_driver_sent:
            self._is_driver_sent = True
            return
        verb, command_id = data.split()[:2]
        self.verbs.append(verb.decode())
        if is_run(data) or verb == b"status":
            for mark in self._answer(verb.decode(), command_id.decode()):
                self._marks.put_nowait(mark)

    async def receive(self) -> bytes:
        if (mark := await self._marks.get()) == "break":
            raise ChannelError("broken")
        return f"-secret-{mark}\n".encode()

    async def close(self) -> None:
        self._marks.put_nowait("break")


class InTurn:
    """Connector to channels, one after the other."""

    def __init__(self, *channels: Channel) -> None:
        self._channels = iter(channels)

    async def connect(self) -> Channel:
        return next(self._channels)

    async def explain(self) -> InfrastructureError | None:
        return None


def end(verb: str, command_id: str) -> list[str]:
    return [f"end {command_id} 0 0 0"]


def lose(verb: str, command_id: str) -> list[str]:
    return [f"lost {command_id}", "hello 1 /spool b 1"]


def forget_then_lose(verb: str, command_id: str) -> list[str]:
    return [f"unknown {command_id}"] if verb == "status" else lose(verb, command_id)


def break_off(verb: str, command_id: str) -> list[str]:
    return ["break"]


@pytest.mark.parametrize(
    ("second", "verbs"),
    [
        pytest.param(Scripted("a", lose), ["status"], id="the spool is lost when it is asked"),
        pytest.param(Scripted("a", forget_then_lose), ["status", "run"], id="the spool is lost when it is sent again"),
        pytest.param(Scripted("b", end), [], id="the spool is another one"),
    ],
)
async def test_a_command_that_two_drivers_were_told_of_is_not_sent_to_a_new_spool(
    second: Scripted, verbs: list[str]
) -> None:
    client = DriverClient(InTurn(Scripted("a", break_off), second), "secret")
    await client.open()
    with pytest.raises(CommandMayHaveRunError):
        await client.run("true", timeout_seconds=10, output_cap_bytes=10)
    await asyncio.sleep(0)
    assert second.verbs == verbs
    await client.close()


async def test_a_command_that_one_driver_was_told_of_and_did_not_begin_is_sent_to_the_new_spool() -> None:
    num_lost = 0

    def lose_first(verb: str, command_id: str) -> list[str]:
        nonlocal num_lost
        num_lost += 1
        return lose(verb, command_id) if num_lost == 1 else end(verb, command_id)

    channel = Scripted("a", lose_first)
    client = DriverClient(InTurn(channel), "secret")
    await client.open()
    assert (await client.run("true", timeout_seconds=10, output_cap_bytes=10)).exit_code == 0
    assert channel.verbs == ["run", "run"]
    await client.close()


async def test_a_driver_that_greets_twice_is_sent_the_command_once() -> None:
    def answer(verb: str, command_id: str) -> list[str]:
        if channel.verbs == ["run"]:
            return ["hello 1 /spool a 1", "hello 1 /spool a 1"]
        if channel.verbs[-2:] == ["status", "status"]:
            return [f"unknown {command_id}", f"unknown {command_id}"]
        return end(verb, command_id) if verb == "run" else []

    channel = Scripted("a", answer)
    client = DriverClient(InTurn(channel), "secret")
    await client.open()
    assert (await client.run("true", timeout_seconds=10, output_cap_bytes=10)).exit_code == 0
    await asyncio.sleep(0)
    assert channel.verbs == ["run", "status", "status", "run"]
    await client.close()
