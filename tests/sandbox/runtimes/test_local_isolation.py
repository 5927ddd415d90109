"""A local sandbox is a border: an agent in it cannot hit the machine, and the machine's secrets are not in it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.runtimes.thread_caps import build_thread_caps


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    (made / "package").mkdir(parents=True)
    (made / "package" / "code.py").write_text("x = 1\n")
    return made


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    made = LocalRuntime(LocalConfig(memory_bytes=64 << 20))
    yield made
    await made.close()


@pytest.fixture
async def sandbox(runtime: LocalRuntime, tree: Path) -> AsyncIterator[Sandbox]:
    async with await runtime.acquire(f"dir:{tree}", deadline_seconds=10) as made:
        yield made


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("pkill -9 -f harness-canary", id="by-pattern"),
        pytest.param("pkill -9 -u $(id -u)", id="by-user"),
        pytest.param("kill -9 -1", id="all"),
        pytest.param("fuser -k -9 {port}/tcp; pkill -9 python", id="by-port"),
        pytest.param("for p in $(seq 1 40000); do kill -9 $p; done", id="by-every-pid"),
    ],
)
async def test_the_harness_survives_a_killing_agent(sandbox: Sandbox, attack: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        canary = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)", "harness-canary"], pass_fds=[server.fileno()]
        )
        try:
            await sandbox.run(attack.format(port=server.getsockname()[1]), timeout_seconds=30)
            assert canary.poll() is None
        finally:
            canary.kill()
            canary.wait()
    assert (await sandbox.run("echo alive", timeout_seconds=10)).text == "alive\n"


async def test_nothing_listens_for_it_and_nothing_answers(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        result = await sandbox.run(f'python3 -c "{code}"', timeout_seconds=20)
    assert "ConnectionRefusedError" in result.text


async def test_its_own_loopback_works_on_any_port(sandbox: Sandbox) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 80)); socket.create_connection(('127.0.0.1', 80))"
    assert (await sandbox.run(f'python3 -c "{code}"', timeout_seconds=20)).exit_code == 0


async def test_files_of_the_machine_are_hidden_or_read_only(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    for command in (f"cat {secret}", "cat /etc/shadow", f"ls {Path.home()}/.ssh", "cat /proc/1/root/etc/shadow"):
        assert (await sandbox.run(command, timeout_seconds=10)).exit_code != 0, command
    for command in (
        "touch /usr/bin/x",
        f"touch {sys.prefix}/x",
        f"touch {sys.base_prefix}/x",
        "echo 1 >/proc/sys/kernel/panic",
        "mount -o remount,rw /usr",
        "unshare -Urm sh -c 'mount -o remount,rw /usr && touch /usr/bin/x'",
        "umount /proc/sys",
        "mknod /tmp/disk b 254 0",
    ):
        assert (await sandbox.run(command, timeout_seconds=10)).exit_code != 0, command
    assert not Path(sys.prefix, "x").exists()


async def test_home_is_a_new_one(sandbox: Sandbox) -> None:
    await sandbox.run("echo mine >~/.sweyard-test-file", timeout_seconds=10)
    assert (await sandbox.run("cat ~/.sweyard-test-file", timeout_seconds=10)).text == "mine\n"
    assert not (Path.home() / ".sweyard-test-file").exists()


async def test_the_harness_environment_is_not_seen(
    runtime: LocalRuntime, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "very-secret")
    async with await runtime.acquire(f"dir:{tree}", deadline_seconds=10) as sandbox:
        result = await sandbox.run("env; cat /proc/*/environ", timeout_seconds=10)
        assert "very-secret" not in result.text


async def test_the_tree_is_never_changed(sandbox: Sandbox, tree: Path) -> None:
    command = "echo y >>package/code.py; mv package moved; python3 -c \"import os; os.rename('moved', 'again')\"; ls"
    assert (await sandbox.run(command, timeout_seconds=10)).text == "again\n"
    assert (tree / "package" / "code.py").read_text() == "x = 1\n"
    assert [path.name for path in tree.iterdir()] == ["package"]


async def test_a_full_disk_is_the_sandboxes_own(sandbox: Sandbox) -> None:
    devices = (await sandbox.run("stat -c %d /testbed /tmp", timeout_seconds=10)).text.split()
    assert str(os.stat("/tmp").st_dev) not in devices
    result = await sandbox.run("head -c 300000000 /dev/zero >/testbed/big", timeout_seconds=60)
    assert "No space left" in result.text
    await sandbox.run("rm /testbed/big", timeout_seconds=10)
    await sandbox.run("head -c 300000000 /dev/zero >/tmp/big", timeout_seconds=60)
    with pytest.raises(InfrastructureError) as caught:
        await sandbox.write("/tmp/file", bytes(1_000_000))
    assert caught.value.reason is FailureReason.DISK_FULL


async def test_daemons_stay_until_the_end_and_zombies_do_not(sandbox: Sandbox) -> None:
    zombies = "grep -l 'State:.Z' /proc/[0-9]*/status | wc -l"
    for _ in range(100):
        await sandbox.run("sleep 300 & (sh -c 'true &' &)", timeout_seconds=10)
    # The last one is a shell until it has become `sleep`.
    settled = "for turn in $(seq 50); do [ $(pgrep -c sleep) = 100 ] && break; sleep 0.1; done; pgrep -c sleep"
    assert (await sandbox.run(settled, timeout_seconds=30)).text == "100\n"
    await sandbox.run("pkill sleep; sleep 0.1", timeout_seconds=10)
    assert (await sandbox.run(zombies, timeout_seconds=10)).text == "0\n"


async def test_closing_ends_every_process(runtime: LocalRuntime, tree: Path) -> None:
    sandbox = await runtime.acquire(f"dir:{tree}", deadline_seconds=10)
    await sandbox.run("setsid sleep 98765 & setsid sleep 98765 &", timeout_seconds=10)
    await sandbox.close()
    assert subprocess.run(["pgrep", "-f", "sleep 98765"], capture_output=True, check=False).stdout == b""


async def test_a_harness_that_is_killed_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    program = f"""
import asyncio, os, signal
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
async def main():
    sandbox = await LocalRuntime().acquire("dir:{tree}", deadline_seconds=10)
    await sandbox.run("setsid sleep 87654 &", timeout_seconds=10)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], env=environment, check=False)
    assert killed.returncode == -9
    for _ in range(100):
        found = subprocess.run(["pgrep", "-f", "sleep 87654"], capture_output=True, check=False).stdout
        if not found:
            break
        await asyncio.sleep(0.05)
    assert found == b""
    for _ in range(100):
        if not (left := list(tmp_path.glob("sweyard-*"))):
            break
        await asyncio.sleep(0.05)
    assert left == []


async def test_where_namespaces_are_missing_it_refuses_in_a_sentence(tree: Path) -> None:
    # A path that cannot be bound stands for a system that refuses the mount.
    config = LocalConfig(working_directory="/usr/testbed")
    runtime = LocalRuntime(config)
    with pytest.raises(InfrastructureError, match="allow_unisolated if you trust the model") as caught:
        await runtime.acquire(f"dir:{tree}", deadline_seconds=10)
    assert caught.value.reason is FailureReason.FORBIDDEN
    await runtime.close()
    trusting = LocalRuntime(replace(config, allow_unisolated=True))
    async with await trusting.acquire(f"dir:{tree}", deadline_seconds=10) as sandbox:
        result = await sandbox.run("cat /usr/testbed/package/code.py", timeout_seconds=10)
        assert result.text == "x = 1\n"
        await sandbox.write("/usr/testbed/new", b"new")
        assert (await sandbox.run("cat new", timeout_seconds=10)).text == "new"
    assert not (tree / "new").exists()
    await trusting.close()


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("python:3.12", "written dir:PATH"),
        ("dir:relative", "image_root"),
        ("dir:/no/such/tree", "there is no directory /no/such/tree"),
    ],
)
async def test_a_wrong_image_is_refused_in_a_sentence(runtime: LocalRuntime, image: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        await runtime.acquire(image, deadline_seconds=10)


async def test_relative_images_are_found_under_the_root(tree: Path) -> None:
    runtime = LocalRuntime(LocalConfig(image_root=tree.parent))
    async with await runtime.acquire("dir:tree", deadline_seconds=10) as sandbox:
        assert (await sandbox.run("ls", timeout_seconds=10)).text == "package\n"
    await runtime.close()


async def test_more_sandboxes_than_allowed_wait_and_then_say_why(tree: Path) -> None:
    runtime = LocalRuntime(LocalConfig(max_sandboxes=1))
    first = await runtime.acquire(f"dir:{tree}", deadline_seconds=10)
    with pytest.raises(ClaimTimeoutError, match="all 1 local sandboxes"):
        await runtime.acquire(f"dir:{tree}", deadline_seconds=0.1)
    waiting = asyncio.create_task(runtime.acquire(f"dir:{tree}", deadline_seconds=10))
    await first.close()
    await (await waiting).close()
    await runtime.close()


async def test_tools_size_themselves_by_the_limit(tree: Path) -> None:
    runtime = LocalRuntime(LocalConfig(cpus=2.5))
    async with await runtime.acquire(f"dir:{tree}", deadline_seconds=10) as sandbox:
        assert (await sandbox.run("echo $OMP_NUM_THREADS $PYTHON_CPU_COUNT", timeout_seconds=10)).text == "3 3\n"
        override = await sandbox.run("echo $OMP_NUM_THREADS", timeout_seconds=10, env={"OMP_NUM_THREADS": "7"})
        assert override.text == "7\n"
    await runtime.close()


@pytest.mark.parametrize(("cpus", "count"), [(0.1, "1"), (1.0, "1"), (1.01, "2"), (16.0, "16")])
def test_caps_are_rounded_up(cpus: float, count: str) -> None:
    assert build_thread_caps(cpus)["GOMAXPROCS"] == count


async def test_a_command_holds_no_channel_to_the_host(sandbox: Sandbox) -> None:
    listing = "for number in $(ls /proc/$$/fd /proc/self/fd | sort -u); do readlink /proc/$$/fd/$number; done"
    result = await sandbox.run(listing, timeout_seconds=10)
    assert "/dev/null" in result.text
    assert "socket:" not in result.text
