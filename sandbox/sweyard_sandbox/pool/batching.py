"""A batch of claims: all or none, and no two batches can wait for each other.

A batch takes nothing until all that it wants is free at once (see ClaimQueue). Of what is free it chooses the lowest
UIDs, claims the lowest of all, and only once it has that one the others: batches that see the same pods meet at the
same first pod, and all but one of them leave with nothing held. What it loses after that it replaces from what is free
at that moment; if nothing is, it gives everything back and begins anew after a pause drawn by chance. So no batch ever
waits while it holds a part, and without hold-and-wait there is no deadlock. The price: batches give way to single
claims.
"""

import asyncio
import random
from collections.abc import Sequence

from sweyard_sandbox.pool.claiming import Claims
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.store import PodStore

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 3.0


class BatchClaims:
    """Batches of one holder."""

    def __init__(self, claims: Claims, store: PodStore, demand: Demand, rng: random.Random) -> None:
        self._claims = claims
        self._store = store
        self._demand = demand
        self._rng = rng

    async def claim(self, images: Sequence[str]) -> list[SandboxPod]:
        """A pod of each of `images`, in their order; a cancelled or failed call holds nothing. Raises as Claims."""
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            candidates = await self._claims.queue.take_all(images)
            attempt = asyncio.ensure_future(self._attempt(candidates))
            try:
                pods = await asyncio.shield(attempt)
            except asyncio.CancelledError:
                self._claims.clean(self._undo(attempt))
                raise
            if len(pods) == len(images):
                for image in images:
                    self._demand.consume(image)
                return sort_by_images(pods, images)
            await asyncio.sleep(self._rng.uniform(0, pause_seconds))
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def _attempt(self, candidates: Sequence[SandboxPod]) -> list[SandboxPod]:
        """All of them, or substitutes; else none is held. Raises ApiError."""
        untried = sorted(candidates, key=lambda pod: pod.uid)
        held: list[SandboxPod] = []
        try:
            if untried and (first := await self._claims.attempt(untried.pop(0))) is not None:
                held.append(first)
                rest, untried = untried, []
                answers = await asyncio.gather(*map(self._attempt_or_substitute, rest), return_exceptions=True)
                held += [answer for answer in answers if isinstance(answer, SandboxPod)]
                for answer in answers:
                    if isinstance(answer, BaseException):
                        raise answer
        finally:
            for pod in untried:
                self._claims.queue.give_back(pod)
            if len(held) < len(candidates):
                await asyncio.gather(*map(self._claims.release, held))
        return held if len(held) == len(candidates) else []

    async def _attempt_or_substitute(self, pod: SandboxPod) -> SandboxPod | None:
        candidate: SandboxPod | None = pod
        while candidate is not None:
            if (claimed := await self._claims.attempt(candidate)) is not None:
                return claimed
            candidate = self._store.take(pod.image)
        return None

    async def _undo(self, attempt: "asyncio.Future[list[SandboxPod]]") -> None:
        await asyncio.wait([attempt])
        if attempt.exception() is None:
            await asyncio.gather(*map(self._claims.release, attempt.result()))


def sort_by_images(pods: Sequence[SandboxPod], images: Sequence[str]) -> list[SandboxPod]:
    """The same pods, one of each image where `images` names it."""
    by_image: dict[str, list[SandboxPod]] = {}
    for pod in pods:
        by_image.setdefault(pod.image, []).append(pod)
    return [by_image[image].pop() for image in images]
