"""The shipped fake keeps its promises, so that tests above it mean something."""

import pytest

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.runtimes.fake import FakeRuntime, Reply, UnscriptedCommand


async def test_files_and_scripted_commands() -> None:
    def fix(sandbox: object) -> None:
        sandbox.files["/a"] = b"fixed"  # type: ignore[attr-defined]

    runtime = FakeRuntime(files={"/a": b"x"}, script=[Reply("sed", effect=fix), Reply("pytest", 1, b"failed")])
    async with await runtime.acquire("i:1", deadline_seconds=1) as sandbox:
        assert (await sandbox.run("cat /a", timeout_seconds=1)).output == b"x"
        await sandbox.run("sed -i s/x/y/ /a", timeout_seconds=1)
        assert await sandbox.read("/a") == b"fixed"
        assert (await sandbox.run("cd / && pytest -q", timeout_seconds=1)).exit_code == 1
        await sandbox.write("/b/c", b"new", mode=0o755)
        assert sandbox.modes["/b/c"] == 0o755
        with pytest.raises(IsADirectoryError):
            await sandbox.read("/b")
        with pytest.raises(FileNotFoundError):
            await sandbox.read("/none")
    assert runtime.files == {"/a": b"x"}
    assert next(call.command for call in runtime.calls) == "cat /a"
    assert runtime.released == ["fake-0"]


async def test_a_command_without_a_script_is_an_error_of_the_test() -> None:
    sandbox = await FakeRuntime().acquire("i:1", deadline_seconds=1)
    with pytest.raises(UnscriptedCommand, match="make"):
        await sandbox.run("make all", timeout_seconds=1)


async def test_replies_can_be_used_up_time_out_be_cut_and_kill() -> None:
    dead = InfrastructureError(FailureReason.OOM_KILLED, "gone")
    script = [
        Reply("test", output=b"first", times=1),
        Reply("test", output=b"later"),
        Reply("slow", seconds=10),
        Reply("die", error=dead),
    ]
    sandbox = await FakeRuntime(script=script).acquire("i:1", deadline_seconds=1)
    outputs = [(await sandbox.run("test", timeout_seconds=1)).output for _ in range(3)]
    assert outputs == [b"first", b"later", b"later"]
    slow = await sandbox.run("slow", timeout_seconds=1)
    assert (slow.timed_out, slow.exit_code) == (True, -1)
    cut = await sandbox.run("test", timeout_seconds=1, output_cap_bytes=2)
    assert (cut.output, cut.truncated) == (b"la", True)
    for command in ("die", "true"):
        with pytest.raises(InfrastructureError, match="gone"):
            await sandbox.run(command, timeout_seconds=1)


async def test_acquiring_can_fail_and_be_full() -> None:
    error = InfrastructureError(FailureReason.IMAGE_PULL, "no such image")
    runtime = FakeRuntime(acquire_errors=[error, None], max_sandboxes=1)
    with pytest.raises(InfrastructureError, match="no such image"):
        await runtime.acquire("i:1", deadline_seconds=1)
    first = await runtime.acquire("i:1", deadline_seconds=1)
    with pytest.raises(ClaimTimeoutError):
        await runtime.acquire("i:1", deadline_seconds=1)
    await first.close()
    await runtime.acquire("i:1", deadline_seconds=1)
    await runtime.announce(["a:1"])
    await runtime.close()
    assert runtime.announced == [["a:1"]]
    assert runtime.closed
