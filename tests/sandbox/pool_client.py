"""How tests of the pool client connect, wait and lie."""

import asyncio
import random
from collections.abc import Callable

from aiohttp import web

from sweyard_sandbox.pool.credentials import Credentials
from sweyard_sandbox.pool.pool import Pool


def status(code: int, reason: str = "", message: str = "") -> web.Response:
    """A refusal in the API server's form."""
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


async def connect(credentials: Credentials, holder: str = "me", lease_seconds: int = 30, seed: int = 1) -> Pool:
    """The client of the pool `p`."""
    return await Pool.connect(
        namespace="default",
        name="p",
        credentials=credentials,
        environment={},
        holder=holder,
        lease_seconds=lease_seconds,
        rng=random.Random(seed),
    )


async def eventually(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Until it holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
