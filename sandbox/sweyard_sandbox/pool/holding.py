"""Holding: what one holder has of a RolloutPool below its sandboxes' streams: Lease, watch, demand and claims."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError, WaitingReason
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.batching import BatchClaims
from sweyard_sandbox.pool.claiming import Claims
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.lease import HolderLease
from sweyard_sandbox.pool.pool_object import ask_why
from sweyard_sandbox.pool.store import PodStore
from sweyard_sandbox.pool.waiting_reasons import Waiting, Want
from sweyard_sandbox.pool.watching import PodWatch


@dataclass(slots=True)
class Progress:
    """How far a call with a deadline has come."""

    is_opening: bool = False
    """All is claimed; streams are being opened."""


class Holding:
    """Keeps Lease, watch and demand going. `on_stop` is called when the holder may not go on."""

    def __init__(
        self,
        api: ApiClient,
        lease: HolderLease,
        *,
        namespace: str,
        pool: str,
        rng: random.Random,
        on_stop: Callable[[InfrastructureError], None],
    ) -> None:
        self.demand = Demand(api, namespace=namespace, pool=pool, holder=lease.holder, lease_uid=lease.uid)
        self._api = api
        self._lease = lease
        self._namespace = namespace
        self._pool = pool
        self._on_stop = on_stop
        self._store = PodStore(rng)
        self.claims = Claims(api, self._store, self.demand, namespace=namespace, holder=lease.holder)
        self.batches = BatchClaims(self.claims, self._store, self.demand, rng)
        self._watch = PodWatch(api, namespace, pool, self._store, self.claims)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once the pool's pods are known. Raises InfrastructureError when they may not be watched."""
        for work in (self._keep_lease(), self._keep_watch(), self.demand.keep()):
            self._tasks.append(asyncio.create_task(work))
        listed = asyncio.create_task(self._watch.is_listed.wait())
        await asyncio.wait([listed, self._tasks[1]], return_when=asyncio.FIRST_COMPLETED)
        listed.cancel()
        if self._tasks[1].done():
            raise self.claims.queue.stopped or AssertionError("a watch ends only by an error")

    def stop(self, error: InfrastructureError) -> None:
        """Nobody may go on with sandboxes that the operator is about to take."""
        self.claims.queue.stop(error)
        self._on_stop(error)

    async def close(self) -> None:
        """Give back what is held, remove the Lease, and with it the demand."""
        await self.claims.drain()
        await asyncio.gather(*(self.claims.release(pod) for pod in list(self.claims.held.values())))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(ApiError, UnreachableError):  # else it lapses, and the operator clears up
            await self._lease.delete()
        await self.claims.drain()

    async def explain_waiting(self, image: str) -> Waiting:
        """What a claim of `image` waits for at this moment."""
        return await self._explain(Want(image))

    async def _explain(self, want: Want) -> Waiting:
        error = self._watch.last_error
        return await ask_why(self._api, self._namespace, self._pool, want, self._store, watch_error=error)

    @asynccontextmanager
    async def limit(self, images: Sequence[str], deadline_seconds: float) -> AsyncIterator[Progress]:
        """Raises ClaimTimeoutError past the deadline, InfrastructureError instead of an ApiError."""
        progress = Progress()
        try:
            async with asyncio.timeout(deadline_seconds):
                yield progress
        except ApiError as error:
            raise InfrastructureError(FailureReason.FORBIDDEN, str(error)) from error
        except TimeoutError:
            raise await self._explain_timeout(images, deadline_seconds, progress) from None

    async def _explain_timeout(
        self, images: Sequence[str], deadline_seconds: float, progress: Progress
    ) -> ClaimTimeoutError:
        if progress.is_opening:
            message = f"{len(images)} claimed, but not every stream opened within {deadline_seconds:g} s"
            return ClaimTimeoutError(message, WaitingReason.CHANNEL)
        wanted = Counter(images)
        lacking = next((image for image, number in wanted.items() if self._store.num_free(image) < number), images[0])
        waiting = await self._explain(Want(lacking, wanted[lacking], batch=len(images)))
        return ClaimTimeoutError(waiting.message, waiting.reason)

    async def _keep_lease(self) -> None:
        self.stop(await self._lease.keep())

    async def _keep_watch(self) -> None:
        try:
            await self._watch.run()
        except ApiError as error:
            self.stop(InfrastructureError(FailureReason.FORBIDDEN, f"the pool's pods cannot be watched: {error}"))
