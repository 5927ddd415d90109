"""The `sandbox` and `runtime` fixtures of the contract: one parameter for each runtime that has a real shell."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sweyard_sandbox.runtime import Runtime, Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

RUNTIMES = [
    pytest.param("local", id="local"),
    pytest.param("unisolated", id="unisolated"),
]


@pytest.fixture
def image(tmp_path: Path) -> str:
    tree = tmp_path / "image"
    tree.mkdir()
    (tree / "a.txt").write_text("hello\n")
    return f"dir:{tree}"


@pytest.fixture(params=RUNTIMES)
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    made: LocalRuntime
    if request.param == "local":
        made = LocalRuntime()
    else:
        made = LocalRuntime(LocalConfig(allow_unisolated=True))
        made._isolated = False  # as on a system without namespaces
    yield made
    await made.close()


@pytest.fixture
async def sandbox(runtime: Runtime, image: str) -> AsyncIterator[Sandbox]:
    async with await runtime.acquire(image, deadline_seconds=30) as made:
        yield made


@pytest.fixture
def is_root() -> bool:
    return os.geteuid() == 0
