"""What the trainer ignores, because nohup or a shell's & started it, is not ignored in a sandbox."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@pytest.fixture
def ignoring() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "unisolated"])
async def test_commands_ignore_nothing(tmp_path: Path, ignoring: None, isolated: bool) -> None:
    runtime = LocalRuntime(LocalConfig(allow_unisolated=True))
    if not isolated:
        runtime._isolated = False  # as on a system without namespaces
    async with await runtime.acquire(f"dir:{tmp_path}", deadline_seconds=30) as sandbox:
        told = (await sandbox.run("grep SigIgn /proc/self/status", timeout_seconds=20)).text
    await runtime.close()
    ignored = int(told.split()[1], 16)
    assert [number for number in signal.valid_signals() if ignored >> (number - 1) & 1] == []
