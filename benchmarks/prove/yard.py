"""A namespace with one RolloutPool, for proofs on a real cluster."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.pods import POOL, fresh_namespace
from benchmarks.warm_pool import REQUESTS, create_pool

from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient
from sweyard_sandbox.pool.pool import Pool, pool_path
from sweyard_sandbox.tasks.task import Task

TEMPLATE = {"resources": {"requests": REQUESTS, "limits": {"memory": "256Mi", "ephemeral-storage": "64Mi"}}}
_POLL_SECONDS = 1.0
DEADLINE_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True)
class Yard:
    """A namespace with one pool, and what is done to it."""

    api: ApiClient
    namespace: str
    tasks: Sequence[Task]

    @property
    def image(self) -> str:
        return self.tasks[0].image

    async def make_pool(self, replicas: int, warm: int) -> None:
        await create_pool(self.api, self.namespace, replicas, warm, image=self.image, template=TEMPLATE)

    async def edit_pool(self, **spec: Any) -> None:
        path = pool_path(self.namespace, POOL)
        await self.api.request("PATCH", path, body={"spec": spec}, content_type=MERGE_PATCH)

    async def status(self) -> dict[str, Any]:
        return (await self.api.request("GET", pool_path(self.namespace, POOL))).get("status") or {}

    async def pods(self) -> list[dict[str, Any]]:
        answer = await self.api.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        return answer.get("items") or []

    async def until(
        self, reached: Callable[[], Awaitable[bool]], what: str, seconds: float = DEADLINE_SECONDS
    ) -> float:
        """Seconds that it took. Raises TimeoutError with the pool's status."""
        began = time.monotonic()
        while not await reached():
            if time.monotonic() - began > seconds:
                raise TimeoutError(f"{what}: not reached in {seconds:.0f} s: {await self.status()}")
            await asyncio.sleep(_POLL_SECONDS)
        print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)
        return time.monotonic() - began

    async def until_ready(self, count: int) -> float:
        async def reached() -> bool:
            return int((await self.status()).get("ready", 0)) >= count

        return await self.until(reached, f"{count} ready")

    async def until_empty(self) -> float:
        async def reached() -> bool:
            return not await self.pods()

        return await self.until(reached, "none left")

    def connect(self) -> Awaitable[Pool]:
        return Pool.connect(namespace=self.namespace, name=POOL)


@asynccontextmanager
async def yard_for(api: ApiClient, tasks: Sequence[Task]) -> AsyncIterator[Yard]:
    async with fresh_namespace(api) as namespace:
        yield Yard(api, namespace, tasks)
