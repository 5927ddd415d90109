"""What every runtime must do alike, the fake too: all that needs no shell but for `true`, `false`, `echo` and `cat`."""

import asyncio
import os
from typing import Any

import pytest
from tests.sandbox.contract.conftest import RUNTIMES

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Runtime, Sandbox

ALL_BYTES = bytes(range(256)) * 40


BUSYBOX = pytest.param("busybox", id="busybox", marks=pytest.mark.kubelet)


@pytest.fixture(params=[*RUNTIMES, BUSYBOX, pytest.param("fake", id="fake")])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [("true", 0, b""), ("false", 1, b""), ("echo hi", 0, b"hi\n"), ("cat a.txt", 0, b"hello\n")],
)
async def test_a_command_has_an_exit_code_and_an_output(
    sandbox: Sandbox, command: str, exit_code: int, output: bytes
) -> None:
    result = await sandbox.run(command, timeout_seconds=20)
    assert (result.exit_code, result.output) == (exit_code, output)
    assert (result.truncated, result.timed_out, result.oom_killed) == (False, False, False)


@pytest.mark.parametrize("size", [0, 999, 1_000, 1_001, 70_000])
async def test_output_is_cut_at_the_cap(sandbox: Sandbox, size: int) -> None:
    data = os.urandom(size)
    await sandbox.write("/tmp/long", data)
    result = await sandbox.run("cat /tmp/long", timeout_seconds=20, output_cap_bytes=1_000)
    assert (result.exit_code, result.output, result.truncated) == (0, data[:1_000], size > 1_000)


async def test_commands_given_at_once_all_run(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.run(f"echo {number}", timeout_seconds=60) for number in range(20)))
    assert [result.text for result in results] == [f"{number}\n" for number in range(20)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"command": "touch ran; echo \0"}, "NUL byte"),
        ({"command": "touch ran; : " + "x" * 200_000 + "\0"}, "NUL byte"),
        ({"command": "touch ran", "cwd": "/tmp\0"}, "NUL byte"),
        ({"command": "touch ran", "env": {"A": "\0"}}, "NUL byte"),
        ({"command": "touch ran", "env": {"A-B": "1"}}, "A-B"),
        ({"command": "touch ran", "user": "root; id"}, "is no user name"),
    ],
    ids=["command", "long command", "directory", "value", "variable", "user"],
)
async def test_what_no_shell_can_be_told_is_refused_before_it_runs(
    sandbox: Sandbox, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        await sandbox.run(**arguments, timeout_seconds=20)
    with pytest.raises(FileNotFoundError):
        await sandbox.read("ran")


async def test_the_default_directory_is_the_tasks(sandbox: Sandbox) -> None:
    assert await sandbox.read("/testbed/a.txt") == await sandbox.read("a.txt") == b"hello\n"
    await sandbox.write("b.txt", b"beside")
    assert (await sandbox.run("cat b.txt", timeout_seconds=20)).output == b"beside"
    assert (await sandbox.run("cat /testbed/b.txt", timeout_seconds=20, cwd="/")).output == b"beside"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n", id="newline"),
        pytest.param(ALL_BYTES, id="all-bytes"),
        pytest.param(b"run x y 1 0 1\nrm -rf /\nforget a\n", id="looks-like-requests"),
        pytest.param(os.urandom(5_000_000), id="5-MB"),
        pytest.param(os.urandom(17_000_001), id="17-MB-in-portions"),
    ],
)
async def test_files_come_back_byte_for_byte(sandbox: Sandbox, data: bytes) -> None:
    path = "/testbed/new dir/sub/it's a file"
    await sandbox.write(path, b"what was there before")
    await sandbox.write(path, data)
    assert await sandbox.read(path) == data
    assert (await sandbox.run("echo next", timeout_seconds=20)).output == b"next\n"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("/no/such/file", FileNotFoundError, id="missing"),
        pytest.param("/testbed", IsADirectoryError, id="directory"),
        pytest.param("/testbed/a.txt/x", NotADirectoryError, id="below-a-file"),
    ],
)
async def test_reading_fails_as_a_local_open_would(sandbox: Sandbox, path: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        await sandbox.read(path)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("/testbed", IsADirectoryError, id="directory"),
        pytest.param("/testbed/a.txt/x", NotADirectoryError, id="below-a-file"),
    ],
)
async def test_writing_fails_as_a_local_open_would(sandbox: Sandbox, path: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        await sandbox.write(path, b"x")
    assert (await sandbox.run("echo next", timeout_seconds=20)).output == b"next\n"


async def test_a_file_over_the_cap_is_refused_not_cut(sandbox: Sandbox) -> None:
    await sandbox.write("/tmp/long", bytes(2_000))
    assert len(await sandbox.read("/tmp/long", cap_bytes=2_000)) == 2_000
    with pytest.raises(OSError, match="cap_bytes=1000"):
        await sandbox.read("/tmp/long", cap_bytes=1_000)


async def test_what_one_sandbox_writes_is_in_no_other(runtime: Runtime, image: str) -> None:
    async with await runtime.acquire(image, deadline_seconds=30) as first:
        await first.write("a.txt", b"changed")
        async with await runtime.acquire(image, deadline_seconds=30) as second:
            assert second.id != first.id
            assert await second.read("a.txt") == b"hello\n"


async def test_a_closed_sandbox_says_so(sandbox: Sandbox) -> None:
    await sandbox.close()
    await sandbox.close()
    for use in (sandbox.run("echo", timeout_seconds=5), sandbox.read("a.txt"), sandbox.write("a.txt", b"")):
        with pytest.raises(InfrastructureError) as caught:
            await use
        assert caught.value.reason is FailureReason.DELETED


async def test_a_runtime_takes_its_sandboxes_with_it(runtime: Runtime, image: str) -> None:
    sandbox = await runtime.acquire(image, deadline_seconds=30)
    await runtime.close()
    await runtime.close()
    with pytest.raises(InfrastructureError):
        await sandbox.run("echo", timeout_seconds=5)
