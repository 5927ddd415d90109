"""What becomes of commands when streams break."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.sandbox.runtimes.shells import Shells

from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError


async def test_every_shell_runs_the_driver(sandbox: DriverSandbox) -> None:
    result = await sandbox.run("echo out; echo err >&2; exit 7", timeout_seconds=10)
    assert (result.exit_code, result.output) == (7, b"out\nerr\n")
    data = bytes(range(256)) * 1000
    await sandbox.write("/tmp/sweyard-test-file", data)
    assert await sandbox.read("/tmp/sweyard-test-file") == data
    os.unlink("/tmp/sweyard-test-file")
    timed_out = await sandbox.run("trap '' TERM; sleep 60; sleep 60", timeout_seconds=0.2)
    assert timed_out.timed_out
    cut = await sandbox.run("head -c 5000 /dev/zero", timeout_seconds=10, output_cap_bytes=1000)
    assert (len(cut.output), cut.truncated) == (1000, True)
    assert (await sandbox.run("echo still here", timeout_seconds=10)).text == "still here\n"


async def test_a_stream_that_breaks_under_a_command_loses_nothing(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    task = asyncio.create_task(
        sandbox.run(f"echo before; sleep 0.6; echo line >>{file}; echo after; exit 9", timeout_seconds=20)
    )
    await asyncio.sleep(0.2)
    shells.channels[0].cut()
    result = await task
    assert (result.exit_code, result.output) == (9, b"before\nafter\n")
    assert file.read_text() == "line\n"
    assert sandbox.client.counters.reconnects == 1
    assert sandbox.client.counters.recovered == 1


async def test_a_result_that_was_lost_on_its_way_is_fetched(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    await sandbox.run("true", timeout_seconds=10)
    shells.channels[0].is_cut = True
    shells.channels[0].is_cut = False
    task = asyncio.create_task(sandbox.run(f"echo line >>{file}; echo done", timeout_seconds=20))
    while not file.exists():
        await asyncio.sleep(0.001)
    shells.channels[0].cut()
    assert (await task).text == "done\n"
    assert file.read_text() == "line\n"


async def test_a_request_that_never_arrived_is_sent_again(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    shells.channels[0].drop_sends = True
    task = asyncio.create_task(sandbox.run(f"echo line >>{file}; echo done", timeout_seconds=20))
    await asyncio.sleep(0.1)
    shells.channels[0].cut()
    assert (await task).text == "done\n"
    assert file.read_text() == "line\n"
    assert sandbox.client.counters.resent == 1


async def test_a_file_written_while_the_stream_breaks_is_whole(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path
) -> None:
    data = os.urandom(3_000_000)
    task = asyncio.create_task(sandbox.write(str(tmp_path / "file"), data))
    await asyncio.sleep(0.005)
    shells.channels[0].cut()
    await task
    assert (tmp_path / "file").read_bytes() == data


async def test_reconnecting_is_tried_again(shells: Shells, sandbox: DriverSandbox) -> None:
    shells.refuse = 3
    shells.channels[0].cut()
    assert (await sandbox.run("echo back", timeout_seconds=10)).text == "back\n"


@pytest.mark.parametrize("count", range(3))
async def test_many_breaks_run_each_command_once(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path, count: int
) -> None:
    async def disturb() -> None:
        while True:
            await asyncio.sleep(0.3)
            shells.channels[-1].cut()

    sandbox.client.link.reconnect_seconds = 60  # where a stream takes longer to open than it is left alone
    disturber = asyncio.create_task(disturb())
    for number in range(10):
        result = await sandbox.run(f"echo {number} >>{tmp_path}/lines; sleep 0.03; echo {number}", timeout_seconds=30)
        assert result.text == f"{number}\n"
    disturber.cancel()
    assert (tmp_path / "lines").read_text().split() == [str(number) for number in range(10)]


async def test_a_channel_that_stays_lost_says_that_the_command_may_have_run(
    shells: Shells, sandbox: DriverSandbox
) -> None:
    sandbox.client.link.reconnect_seconds = 0.3
    task = asyncio.create_task(sandbox.run("sleep 1", timeout_seconds=20))
    await asyncio.sleep(0.1)
    shells.refuse = 1_000
    shells.channels[0].cut()
    with pytest.raises(CommandMayHaveRunError) as caught:
        await task
    assert caught.value.reason is FailureReason.EXEC_LOST
    with pytest.raises(InfrastructureError):
        await sandbox.run("true", timeout_seconds=5)


async def test_a_dead_sandbox_is_reported_with_its_reason(shells: Shells, sandbox: DriverSandbox) -> None:
    task = asyncio.create_task(sandbox.run("sleep 1", timeout_seconds=20))
    await asyncio.sleep(0.1)
    shells.death = InfrastructureError(FailureReason.EVICTED, "the node was low on memory")
    shells.channels[0].cut()
    with pytest.raises(InfrastructureError, match="low on memory") as caught:
        await task
    assert caught.value.reason is FailureReason.EVICTED


async def test_commands_of_other_caps_take_turns(sandbox: DriverSandbox) -> None:
    for cap in (10, 3_000_000, 1_000, 3_000_000, 10):
        result = await sandbox.run("head -c 2000000 /dev/zero; echo end", timeout_seconds=20, output_cap_bytes=cap)
        assert (len(result.output), result.truncated) == (min(cap, 2_000_004), cap < 2_000_004)
