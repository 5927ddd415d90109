"""The driver and its client over streams that break, in every shell that is here."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.sandbox.runtimes.shells import SHELLS, Shells

from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox


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
    await shells.end()
    await asyncio.sleep(0)


@pytest.fixture
def sandbox(client: DriverClient) -> DriverSandbox:
    async def destroy() -> None:
        return None

    return DriverSandbox("test", client, destroy)
