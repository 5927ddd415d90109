"""KubernetesRuntime: the Runtime protocol over a Pool."""

from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.pool.pool import Pool


class KubernetesRuntime:
    """Sandboxes claimed from one RolloutPool; owns the pool client."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def acquire(self, image: str, *, deadline_seconds: float) -> DriverSandbox:
        """A claimed pod of `image` with an open stream."""
        return await self._pool.acquire(image, deadline_seconds=deadline_seconds)

    async def announce(self, images: list[str]) -> None:
        """Write this holder's demand."""
        await self._pool.announce(images)

    async def close(self) -> None:
        """Give back all pods and the Lease."""
        await self._pool.close()
