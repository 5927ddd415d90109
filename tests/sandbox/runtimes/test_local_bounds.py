"""What commands do to each other's ground, their own machine is not harmed by."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

MAX_PROCESSES = 200


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    runtime = LocalRuntime(LocalConfig(max_processes=MAX_PROCESSES))
    (tmp_path / "tree").mkdir()
    yield await runtime.acquire(f"dir:{tmp_path}/tree", deadline_seconds=60)
    await runtime.close()


BREEDERS = {
    "one by one": f"for i in $(seq {2 * MAX_PROCESSES}); do sleep 100 & done; wait",
    "by doubling": "breed() { breed | breed & }; breed; sleep 100",
}


@pytest.mark.parametrize("command", BREEDERS.values(), ids=BREEDERS)
async def test_what_breeds_processes_is_killed_with_them(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, timeout_seconds=60)
    assert not result.timed_out
    assert result.exit_code == 137
    assert f"more than {MAX_PROCESSES} processes" in result.text
    after = await sandbox.run("ls -d /proc/[0-9]* | wc -l", timeout_seconds=60)
    assert (after.exit_code, int(after.text) < 10) == (0, True)


async def test_what_breeds_in_the_background_does_not_keep_the_next_command_from_running(sandbox: Sandbox) -> None:
    breeder = "(breed() { breed | breed & }; breed) >/dev/null 2>&1 &"
    assert (await sandbox.run(breeder, timeout_seconds=60)).exit_code == 0
    for _ in range(3):
        later = await sandbox.run("echo fine", timeout_seconds=60)
        assert later.text.startswith("fine\n") or later.exit_code == 137  # killed with the brood it was born into
    for _ in range(20):
        outlived = await sandbox.run("sleep 1 && ls -d /proc/[0-9]* | wc -l", timeout_seconds=60)
        if outlived.exit_code == 0 and int(outlived.text) < 10:  # else killed with the brood, or without room to fork
            break
    else:
        pytest.fail("what breeds was never killed")
    assert (await sandbox.run("echo fine", timeout_seconds=60)).text == "fine\n"


async def test_many_processes_within_the_bound_are_nobodys_business(sandbox: Sandbox) -> None:
    result = await sandbox.run(
        f"for i in $(seq {MAX_PROCESSES // 2}); do sleep 0.5 & done; wait; echo all", timeout_seconds=60
    )
    assert (result.exit_code, result.text) == (0, "all\n")


async def test_where_memory_runs_out_the_kernel_takes_the_commands_first(sandbox: Sandbox) -> None:
    assert (await sandbox.run("cat /proc/self/oom_score_adj", timeout_seconds=60)).text == "1000\n"


async def test_a_shell_that_a_command_removed_is_that_commands_fault(sandbox: Sandbox) -> None:
    await sandbox.run("rm -rf /usr/bin /bin", timeout_seconds=60)
    result = await sandbox.run("echo fine", timeout_seconds=60)
    assert (result.exit_code, result.text) == (127, "sh: No such file or directory\n")


async def test_what_unisolated_commands_leave_in_the_background_ends_with_their_sandbox(tmp_path: Path) -> None:
    runtime = LocalRuntime(LocalConfig(allow_unisolated=True))
    runtime._isolated = False  # as on a system without namespaces
    sandbox = await runtime.acquire(f"dir:{tmp_path}", deadline_seconds=60)
    started = await sandbox.run("setsid sh -c 'while :; do sleep 0.1; done' & echo $!", timeout_seconds=60)
    assert Path(f"/proc/{int(started.text)}").exists()
    await runtime.close()
    assert not is_running(int(started.text))


def is_running(pid: int) -> bool:
    """Not counting one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
