"""A runtime outlives its holder: when the Lease lapsed, claims wait for another, and then go on."""

import asyncio
from typing import cast

import pytest

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiError, UnreachableError
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime

LAPSED = InfrastructureError(FailureReason.LEASE_LOST, "the Lease 'me' was not renewed in 30 s")
CLOSED = InfrastructureError(FailureReason.DELETED, "the pool client is closed")


class Holder:
    """A Pool's outside."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped: InfrastructureError | None = None
        self.announced: list[str] = []
        self.is_closed = False

    async def acquire(self, image: str, *, deadline_seconds: float) -> str:
        if self.stopped is not None:
            raise self.stopped
        return f"{image} of {self.name}"

    async def announce(self, images: list[str]) -> None:
        self.announced = images

    async def close(self) -> None:
        self.is_closed = True


class World:
    """Holders one after the other; `failures` come first."""

    def __init__(self, *failures: Exception) -> None:
        self.holders = [Holder("first")]
        self.failures = list(failures)

    async def reconnect(self) -> Pool:
        if self.failures:
            raise self.failures.pop(0)
        self.holders.append(Holder("next"))
        return cast(Pool, self.holders[-1])

    def runtime(self) -> KubernetesRuntime:
        return KubernetesRuntime(cast(Pool, self.holders[0]), self.reconnect)


def test_claims_wait_for_one_new_holder_through_an_outage() -> None:
    async def main() -> None:
        world = World(UnreachableError("refused"), ApiError(429, "TooManyRequests", "slow down"))
        runtime = world.runtime()
        world.holders[0].stopped = LAPSED
        claims = [runtime.acquire("i:1", deadline_seconds=600) for _ in range(3)]
        assert set(await asyncio.gather(*claims)) == {"i:1 of next"}
        assert len(world.holders) == 2
        await runtime.announce(["i:2"])
        assert [holder.announced for holder in world.holders] == [[], ["i:2"]]
        await runtime.close()
        assert all(holder.is_closed for holder in world.holders)

    run_in_virtual_time(main())


def test_a_claim_does_not_wait_for_longer_than_it_may() -> None:
    async def main() -> None:
        world = World(*[UnreachableError("refused")] * 1_000)
        runtime = world.runtime()
        world.holders[0].stopped = LAPSED
        await runtime.announce(["i:1"])
        began = asyncio.get_running_loop().time()
        with pytest.raises(InfrastructureError) as told:
            await runtime.acquire("i:1", deadline_seconds=60)
        assert told.value is LAPSED
        assert asyncio.get_running_loop().time() - began == pytest.approx(60)

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("stopped", "failure", "reason"),
    [
        pytest.param(CLOSED, None, FailureReason.DELETED, id="the client was closed"),
        pytest.param(LAPSED, ApiError(404, "NotFound", "no such pool"), FailureReason.FORBIDDEN, id="the pool is gone"),
    ],
)
def test_there_is_no_new_holder_when(
    stopped: InfrastructureError, failure: Exception | None, reason: FailureReason
) -> None:
    async def main() -> None:
        world = World(*([failure] if failure else []))
        runtime = world.runtime()
        world.holders[0].stopped = stopped
        with pytest.raises(InfrastructureError) as told:
            await runtime.acquire("i:1", deadline_seconds=60)
        assert told.value.reason is reason
        assert len(world.holders) == 1

    run_in_virtual_time(main())
