"""One leader at a time, in virtual time."""

import asyncio
import random

import pytest

from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.leader import LEASE_NAME, LeaderLease, LeadershipLostError
from sweyard_operator.resources import LEASES
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.virtual_time import run_in_virtual_time


def lease(api: FakeApiServer, identity: str, contact: Contact | None = None, duration_seconds: int = 15) -> LeaderLease:
    contact = contact or Contact(asyncio.get_running_loop().time)
    cluster = Cluster(api, contact, randomness=random.Random(0))
    return LeaderLease(cluster, namespace="ns", identity=identity, duration_seconds=duration_seconds)


def test_a_second_process_waits_until_the_first_has_been_silent_for_its_duration() -> None:
    async def main() -> None:
        api, loop = FakeApiServer(), asyncio.get_running_loop()
        await lease(api, "first").acquire()
        renewing = asyncio.create_task(lease(api, "first").renew_until_lost())
        waiting = asyncio.create_task(lease(api, "second").acquire())
        await asyncio.sleep(100)
        assert not waiting.done()
        renewing.cancel()
        killed_at = loop.time()
        await waiting
        assert 10.0 <= loop.time() - killed_at <= 22.0

    run_in_virtual_time(main())


def test_the_same_identity_takes_over_at_once() -> None:
    async def main() -> None:
        api, loop = FakeApiServer(), asyncio.get_running_loop()
        await lease(api, "pod-0").acquire()
        started = loop.time()
        await lease(api, "pod-0").acquire()
        assert loop.time() - started < 1.0

    run_in_virtual_time(main())


def test_a_released_lease_is_free_at_once() -> None:
    async def main() -> None:
        api, loop = FakeApiServer(), asyncio.get_running_loop()
        first = lease(api, "first")
        await first.acquire()
        await first.release()
        started = loop.time()
        await lease(api, "second").acquire()
        assert loop.time() - started < 1.0

    run_in_virtual_time(main())


@pytest.mark.parametrize("cause", ["outage", "usurper"])
def test_leadership_ends_when_it_cannot_be_kept(cause: str) -> None:
    async def main() -> None:
        api, loop = FakeApiServer(), asyncio.get_running_loop()
        first = lease(api, "first")
        await first.acquire()
        renewing = asyncio.create_task(first.renew_until_lost())
        await asyncio.sleep(60)
        assert not renewing.done()
        since = loop.time()
        if cause == "outage":
            api.lies.is_down = True
        else:
            taken = api.store.get((LEASES, "ns", LEASE_NAME))
            assert taken is not None
            taken["spec"]["holderIdentity"] = "usurper"
            api.store.put(LEASES, taken)
        with pytest.raises(LeadershipLostError):
            await renewing
        assert loop.time() - since <= 20.0

    run_in_virtual_time(main())


def test_a_short_trouble_does_not_cost_the_leadership() -> None:
    async def main() -> None:
        api = FakeApiServer()
        first = lease(api, "first")
        await first.acquire()
        renewing = asyncio.create_task(first.renew_until_lost())
        api.lies.randomness, api.lies.lost_reply_rate, api.lies.conflict_rate = random.Random(2), 0.2, 0.2
        await asyncio.sleep(300)
        assert not renewing.done()
        renewing.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize("duration_seconds", [5, 15, 60, 600])
def test_a_leader_that_hears_nothing_else_is_in_contact_however_long_its_lease_is(duration_seconds: int) -> None:
    async def main() -> None:
        contact = Contact(asyncio.get_running_loop().time)
        leader = lease(FakeApiServer(), "first", contact, duration_seconds)
        await leader.acquire()
        renewing = asyncio.create_task(leader.renew_until_lost())
        await asyncio.sleep(1_000)
        assert not renewing.done()
        assert contact.outages == 0
        renewing.cancel()

    run_in_virtual_time(main())
