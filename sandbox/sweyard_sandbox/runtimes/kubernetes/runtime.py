"""KubernetesRuntime: the Runtime protocol over a Pool.

A holder whose Lease lapsed, since the API server was away for longer, is over, with all that it held. The runtime is
not: a new holder takes its place, which claims wait for until their deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable

from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiError, UnreachableError
from sweyard_sandbox.pool.pool import Pool

_RETRY_SECONDS = 2.0


class KubernetesRuntime:
    """Sandboxes claimed from one RolloutPool; owns the pool client."""

    def __init__(self, pool: Pool, reconnect: Callable[[], Awaitable[Pool]] | None = None) -> None:
        """`reconnect` makes the client that comes after one whose Lease lapsed; without it there is none."""
        self._pool = pool
        self._reconnect = reconnect
        self._turn = asyncio.Lock()
        self._endings: list[asyncio.Task[None]] = []

    async def acquire(self, image: str, *, deadline_seconds: float) -> DriverSandbox:
        """A claimed pod of `image` with an open stream."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + deadline_seconds
        if self._reconnect is not None and (lapse := _lapse_of(self._pool)) is not None:
            try:
                async with asyncio.timeout_at(ends_at):
                    await self._hold_again(self._reconnect)
            except TimeoutError:
                raise lapse from None
        return await self._pool.acquire(image, deadline_seconds=max(0.0, ends_at - loop.time()))

    async def announce(self, images: list[str]) -> None:
        """Write this holder's demand. After a lapse there is none, until claims wait."""
        if _lapse_of(self._pool) is None:
            await self._pool.announce(images)

    async def close(self) -> None:
        """Give back all pods and the Lease."""
        await asyncio.gather(self._pool.close(), *self._endings)

    async def _hold_again(self, reconnect: Callable[[], Awaitable[Pool]]) -> None:
        """Whoever comes first connects, the others wait for it. Raises InfrastructureError for a refusal."""
        async with self._turn:
            while _lapse_of(self._pool) is not None:
                try:
                    pool = await reconnect()
                except UnreachableError:
                    await asyncio.sleep(_RETRY_SECONDS)
                except ApiError as error:
                    if not error.is_passing:
                        raise InfrastructureError(FailureReason.FORBIDDEN, str(error)) from error
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    self._endings.append(asyncio.create_task(self._pool.close()))
                    self._pool = pool


def _lapse_of(pool: Pool) -> InfrastructureError | None:
    """What a holder died of, if that was the end of its Lease."""
    stopped = pool.stopped
    return stopped if stopped is not None and stopped.reason is FailureReason.LEASE_LOST else None
