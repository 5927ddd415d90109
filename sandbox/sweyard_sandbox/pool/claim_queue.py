"""ClaimQueue: who waits for a free sandbox, and in which order.

Single claims are served first come, first served, per image; who lost a race for a pod keeps its place. A batch is
served when all that it wants is free at the same moment, and takes nothing before: it never holds a part and waits.
"""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.store import PodStore


@dataclass(order=True, slots=True)
class _Waiter:
    ticket: int
    pod: asyncio.Future[SandboxPod] = field(compare=False)


@dataclass(slots=True, eq=False)
class _Batch:
    needs: Counter[str]
    pods: asyncio.Future[list[SandboxPod]]


class ClaimQueue:
    """Hands the store's free pods to those who wait. What it hands out is taken from the store, not claimed yet."""

    def __init__(self, store: PodStore, demand: Demand) -> None:
        self.stopped: InfrastructureError | None = None
        """Why nothing can be had any more."""
        self._store = store
        self._demand = demand
        self._tickets = itertools.count()
        self._waiters: dict[str, list[_Waiter]] = {}
        self._batches: list[_Batch] = []

    def draw_ticket(self) -> int:
        """A place in the order of arrival."""
        return next(self._tickets)

    def num_waiting(self, image: str) -> int:
        """Sandboxes of `image` that are waited for."""
        singles = sum(not waiter.pod.done() for waiter in self._waiters.get(image, ()))
        return singles + sum(batch.needs[image] for batch in self._batches if not batch.pods.done())

    async def take(self, image: str, ticket: int) -> SandboxPod:
        """A free pod of `image`, at once or when its turn comes. Raises what `stop` was given."""
        if self.stopped is not None:
            raise self.stopped
        waiter = _Waiter(ticket, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiters.setdefault(image, []), waiter)
        self.dispatch(image)
        if waiter.pod.done():
            return waiter.pod.result()
        self._demand.begin_waiting([image])
        try:
            return await waiter.pod
        except asyncio.CancelledError:
            if _is_served(waiter.pod):
                self.give_back(waiter.pod.result())
            raise
        finally:
            self._demand.end_waiting([image])

    async def take_all(self, images: Sequence[str]) -> list[SandboxPod]:
        """Free pods of all `images`, all at the same moment. Raises what `stop` was given."""
        if self.stopped is not None:
            raise self.stopped
        batch = _Batch(Counter(images), asyncio.get_running_loop().create_future())
        self._batches.append(batch)
        self._demand.begin_waiting(images)
        try:
            self._serve_batches()
            return await batch.pods
        except asyncio.CancelledError:
            if _is_served(batch.pods):
                for pod in batch.pods.result():
                    self.give_back(pod)
            raise
        finally:
            self._batches.remove(batch)
            self._demand.end_waiting(images)

    def give_back(self, pod: SandboxPod) -> None:
        """A pod that was handed out was not claimed after all; offered again if it is known to be free."""
        self._store.give_back(pod.uid)
        self.dispatch(pod.image)

    def dispatch(self, image: str) -> None:
        """Hand out free pods of `image`; called whenever one may have become free."""
        queue = self._waiters.get(image, [])
        while queue:
            if queue[0].pod.done():  # cancelled
                heapq.heappop(queue)
            elif (pod := self._store.take(image)) is not None:
                heapq.heappop(queue).pod.set_result(pod)
            else:
                return
        self._waiters.pop(image, None)
        if self._batches and self._store.num_free(image):
            self._serve_batches()

    def dispatch_all(self) -> None:
        """After a new list of pods."""
        for image in list(self._waiters):
            self.dispatch(image)
        self._serve_batches()

    def stop(self, error: InfrastructureError) -> None:
        """Fail all who wait, now and later."""
        self.stopped = self.stopped or error
        for waiter in itertools.chain.from_iterable(self._waiters.values()):
            if not waiter.pod.done():
                waiter.pod.set_exception(error)
        for batch in self._batches:
            if not batch.pods.done():
                batch.pods.set_exception(error)
        self._waiters.clear()

    def _serve_batches(self) -> None:
        for batch in self._batches:
            is_whole = all(self._store.num_free(image) >= number for image, number in batch.needs.items())
            if is_whole and not batch.pods.done():
                taken = (self._store.take_lowest(image, number) for image, number in batch.needs.items())
                batch.pods.set_result(list(itertools.chain.from_iterable(taken)))


def _is_served(future: "asyncio.Future[SandboxPod] | asyncio.Future[list[SandboxPod]]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
