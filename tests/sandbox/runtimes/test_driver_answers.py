"""What the driver writes for a command: the bytes that `sh -c` would, and few messages."""

import asyncio
from pathlib import Path

import pytest
from tests.sandbox.runtimes.shells import PipeChannel, Shells

from sweyard_sandbox.driver.sandbox import DriverSandbox

_COMMANDS = 40


async def test_output_and_end_of_a_short_command_are_one_message(
    shells: Shells, sandbox: DriverSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shells.has_perl:
        return  # tee copies at once; where it comes late, that is luck
    messages = 0
    receive = PipeChannel.receive

    async def count(channel: PipeChannel) -> bytes:
        nonlocal messages
        data = await receive(channel)
        messages += 1
        return data

    monkeypatch.setattr(PipeChannel, "receive", count)
    for _ in range(_COMMANDS):
        assert (await sandbox.run("/bin/echo hi", timeout_seconds=60)).output == b"hi\n"
    assert messages < 1.5 * _COMMANDS


@pytest.mark.parametrize("name", ["absent", "folder", "unexecutable", "script"])
async def test_a_program_given_by_its_path_ends_as_in_a_shell(
    shells: Shells, sandbox: DriverSandbox, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "unexecutable").write_text("echo ran\n")
    (tmp_path / "script").write_text("echo ran $1; exit 3\n")  # without a first line that names a shell
    (tmp_path / "script").chmod(0o755)
    command = f"{tmp_path / name} word"
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=shells.environment
    )
    expected, _ = await process.communicate()
    result = await sandbox.run(command, timeout_seconds=60)
    assert (result.exit_code, result.output) == (process.returncode, expected)


async def test_output_past_what_is_held_back_arrives_whole(sandbox: DriverSandbox) -> None:
    command = "for n in 1 2 3 4 5 6; do head -c 30000 /dev/zero; printf ' 0 0\\n'; sleep 0.02; done"
    result = await sandbox.run(command, timeout_seconds=60)
    assert result.output == (bytes(30_000) + b" 0 0\n") * 6
