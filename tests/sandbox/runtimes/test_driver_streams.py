"""The driver and its client over streams that break, in every shell that is here."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError

SHELLS = [shell for shell in ("dash", "busybox", "bash") if shutil.which(shell)]
"""Each is /bin/sh somewhere."""


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
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SWEYARD_SPOOL": str(directory / "spool")}
        self.channels: list[PipeChannel] = []
        self.refuse = 0
        self.death: InfrastructureError | None = None

    async def connect(self) -> PipeChannel:
        if self.refuse:
            self.refuse -= 1
            raise ChannelError("refused")
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", wire.BOOTSTRAP, stdin=-1, stdout=-1, env=self.environment
        )
        self.channels.append(PipeChannel(process))
        return self.channels[-1]

    async def explain(self) -> InfrastructureError | None:
        return self.death


@pytest.fixture(params=SHELLS)
def shells(request: pytest.FixtureRequest, tmp_path: Path) -> Shells:
    return Shells(request.param, tmp_path)


@pytest.fixture
async def client(shells: Shells) -> AsyncIterator[DriverClient]:
    made = DriverClient(shells, os.urandom(8).hex())
    made.link.reconnect_seconds = 5
    await made.open()
    yield made
    await made.close()
    for channel in shells.channels:
        await channel.close()
        with contextlib.suppress(ProcessLookupError):
            channel.process.kill()
        channel.process._transport.close()  # type: ignore[attr-defined]
        await channel.process.wait()
    await asyncio.sleep(0)


@pytest.fixture
def sandbox(client: DriverClient) -> DriverSandbox:
    async def destroy() -> None:
        return None

    return DriverSandbox("test", client, destroy)


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
    assert caught.value.reason is FailureReason.CHANNEL_LOST
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


async def test_noise_in_the_stream_harms_only_its_own_output(shells: Shells, sandbox: DriverSandbox) -> None:
    control = shells.channels[0].process.pid
    noise = f"printf '\\n-guess-end x 0 0 0\\n' >/proc/{control}/fd/3; sleep 0.1; echo done; exit 5"
    result = await sandbox.run(noise, timeout_seconds=20)
    assert (result.exit_code, result.output) == (5, b"\n-guess-end x 0 0 0\ndone\n")
    assert (await sandbox.run("echo next", timeout_seconds=20)).text == "next\n"


async def test_everything_killed_but_the_files_is_a_killed_command(shells: Shells, sandbox: DriverSandbox) -> None:
    pid = shells.channels[0].process.pid
    kill_all = f"echo out; for p in $(cat /proc/{pid}/task/{pid}/children) {pid}; do kill -9 $p; done; kill -9 $PPID $$"
    result = await sandbox.run(kill_all, timeout_seconds=20)
    assert result.exit_code == 137
    assert result.output == b"out\n"
    assert (await sandbox.run("echo next", timeout_seconds=10)).text == "next\n"


async def test_a_request_that_lay_in_an_old_stream_is_not_run_late(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path
) -> None:
    newer = DriverClient(shells, os.urandom(8).hex())
    await newer.open()
    stdin = shells.channels[0].process.stdin
    assert stdin is not None
    stdin.write(wire.encode_run("late", cap_bytes=1, prelude=":", command=f"echo late >>{tmp_path}/lines"))
    stdin.write(wire.encode_line("kill", "late", "TERM"))  # answered behind the request, so that it was read
    async with asyncio.timeout(10):
        while not (tmp_path / "spool" / "late.dead").exists():
            await asyncio.sleep(0.01)
    result = await newer.run("sleep 0.1; echo newer", timeout_seconds=10, output_cap_bytes=100)
    assert result.output == b"newer\n"
    assert not (tmp_path / "lines").exists()
    await newer.close()


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        ('rm -rf "$SWEYARD_SPOOL"; echo out', 0),
        ("setsid sleep 20 & echo out; kill -9 0", 137),
        ("setsid sleep 20 & echo out; kill -9 $PPID; sleep 1; exit 3", None),
        ("trap '' TERM HUP INT; echo out; kill -TERM 0; kill -HUP 0; kill -INT 0", 0),
    ],
    ids=["removes-the-spool", "kills-its-group", "kills-its-parent", "signals-its-group"],
)
async def test_a_command_that_harms_the_driver_is_answered(
    sandbox: DriverSandbox, command: str, exit_code: int | None
) -> None:
    result = await sandbox.run(command, timeout_seconds=20)
    assert not result.timed_out
    assert result.output == b"out\n"
    assert exit_code is None or result.exit_code == exit_code
    for _ in range(2):
        assert (await sandbox.run("echo next", timeout_seconds=20)).text == "next\n"


async def test_commands_of_other_caps_take_turns(sandbox: DriverSandbox) -> None:
    for cap in (10, 3_000_000, 1_000, 3_000_000, 10):
        result = await sandbox.run("head -c 2000000 /dev/zero; echo end", timeout_seconds=20, output_cap_bytes=cap)
        assert (len(result.output), result.truncated) == (min(cap, 2_000_004), cap < 2_000_004)


async def test_a_cancelled_command_ends_though_it_was_hardly_begun(sandbox: DriverSandbox, tmp_path: Path) -> None:
    for number in range(10):
        task = asyncio.create_task(sandbox.run(f"sleep 5; echo {number} >>{tmp_path}/lines", timeout_seconds=20))
        await asyncio.sleep(0.002 * number)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await sandbox.run("echo next", timeout_seconds=4)).text == "next\n"
    assert not (tmp_path / "lines").exists()


async def test_no_processes_are_left_over(shells: Shells, sandbox: DriverSandbox) -> None:
    def count() -> int:
        wanted = f"SWEYARD_SPOOL={shells.environment['SWEYARD_SPOOL']}".encode()
        return sum(wanted in read(path) for path in Path("/proc").glob("[0-9]*/environ"))

    def read(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError:
            return b""

    await sandbox.run("true", timeout_seconds=10)
    base = count()
    for _ in range(30):
        await sandbox.run("echo x; (true &)", timeout_seconds=10)
    for _ in range(5):
        await sandbox.run("trap '' TERM; sleep 60 & (sleep 60 &) ; sleep 60", timeout_seconds=0.05)
    await eventually(lambda: count() <= base)


async def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)
