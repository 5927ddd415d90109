"""Commands that harm the driver, and what is left over."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.runtimes.shells import PipeChannel, Shells, end_process

from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import SandboxEndedError, ToolsMissingError


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


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        ('rm -rf "$SWEYARD_SPOOL" 2>&-; echo out', 0),
        ("setsid sleep 20 & sleep 0.1; echo out; kill -9 0", 137),
        ("echo out; kill -9 0", 137),
        ("setsid sleep 20 & echo out; kill -9 $PPID; sleep 1; exit 3", None),
        ("trap '' TERM HUP INT; echo out; kill -TERM 0; kill -HUP 0; kill -INT 0", 0),
    ],
    ids=["removes-the-spool", "kills-its-group", "kills-its-group-alone", "kills-its-parent", "signals-its-group"],
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


_TOOLS = ("cat", "grep", "head", "mkdir", "nice", "rm", "setsid", "sleep", "tee")


async def test_a_command_that_removes_everything_has_ended_its_sandbox(shells: Shells, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    for tool in _TOOLS:
        (programs / tool).symlink_to(shutil.which(tool) or tool)
    shells.environment["PATH"] = str(programs)
    client = DriverClient(shells, os.urandom(8).hex())
    await client.open()
    await client.run("true", timeout_seconds=20, output_cap_bytes=100)  # all that copies output has been started
    everything = f"{programs}/* {shells.environment['SWEYARD_SPOOL']}"
    result = await client.run(f"rm -rf {everything}; echo done", timeout_seconds=20, output_cap_bytes=100)
    assert result.output == b"done\n"
    next_command = client.run("echo next", timeout_seconds=20, output_cap_bytes=100)
    if shells.has_own_tools:
        assert (await next_command).output == b"next\n"
    else:
        with pytest.raises(SandboxEndedError, match="removed the programs"):
            await next_command
    await client.close()
    process = shells.channels[0].process
    await eventually(lambda: process.returncode is not None, seconds=20)  # with its stream, also without a spool
    await end_process(process)


async def test_a_sandbox_whose_shell_is_gone_when_its_stream_breaks_was_ended(
    shells: Shells, sandbox: DriverSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect() -> PipeChannel:
        raise ToolsMissingError("the image has no /bin/sh that can be executed")

    monkeypatch.setattr(shells, "connect", connect)
    task = asyncio.create_task(sandbox.run("sleep 5", timeout_seconds=20))
    await asyncio.sleep(0)
    shells.channels[0].cut()
    with pytest.raises(SandboxEndedError, match="removed the programs"):
        await task


async def test_a_cancelled_command_ends_though_it_was_hardly_begun(sandbox: DriverSandbox, tmp_path: Path) -> None:
    for number in range(10):
        task = asyncio.create_task(sandbox.run(f"sleep 5; echo {number} >>{tmp_path}/lines", timeout_seconds=20))
        await asyncio.sleep(0.002 * number)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await sandbox.run("echo next", timeout_seconds=50)).text == "next\n"
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
    for _ in range(2):
        await sandbox.run("trap '' TERM; sleep 60 & (sleep 60 &) ; sleep 60", timeout_seconds=0.05)
    await eventually(lambda: count() <= base)


async def test_answered_commands_leave_no_files(sandbox: DriverSandbox, tmp_path: Path) -> None:
    for number in range(70):
        match number % 10:
            case 3:
                await sandbox.write(str(tmp_path / "file"), b"x")
            case 7:
                await sandbox.run(f": {'x' * 10_000}", timeout_seconds=20)
            case _:
                await sandbox.run("true", timeout_seconds=20)
    prefix = sandbox.client.secret[:6]
    answered = {f"{prefix}{number:07d}" for number in range(1, 65)}

    def left() -> set[str]:
        return {path.name.split(".")[0] for path in (tmp_path / "spool").iterdir()}

    await eventually(lambda: not left() & answered)  # what is to be forgotten is asked for, and not waited for
    assert f"{prefix}0000070" in left()


async def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)
