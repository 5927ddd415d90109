"""A holder's Lease: what it is called, when it is renewed, and what its end is told as."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.sandbox.pool_client import connect, status
from tests.sandbox.runtimes.exec_server import ExecServer

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import Credentials, TokenSource
from sweyard_sandbox.pool.lease import HolderLease
from sweyard_sandbox.pool.pool import Pool


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[ExecServer]:
    made = ExecServer(tmp_path / "spool")
    yield made
    await made.close()


async def test_the_lease_exists_before_the_first_claim_and_not_after_the_end(
    api: Any, credentials: Credentials
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/me"
    async with await connect(credentials):
        assert api.objects[lease]["metadata"]["labels"] == {"sweyard.dev/pool": "p"}
        assert api.objects[lease]["spec"]["leaseDurationSeconds"] == 30
    assert lease not in api.objects


async def test_a_holder_that_cannot_renew_stops_itself(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials, lease_seconds=1) as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=30))
        api.lies.append(lambda request: status(500) if "/leases/" in request.path else None)
        with pytest.raises(InfrastructureError) as caught:
            await waiting
        assert caught.value.reason is FailureReason.LEASE_LOST
        with pytest.raises(InfrastructureError):
            await pool.acquire_pod("i:1", deadline_seconds=5)
        api.lies.clear()


async def test_commands_end_in_sandboxes_of_a_holder_that_cannot_renew(
    api: Any, credentials: Credentials, shells: ExecServer
) -> None:
    """The operator is about to take them."""
    api.serve_exec = shells.serve_exec
    api.add_pod("p-0")
    async with await connect(credentials, lease_seconds=2) as pool:
        sandbox = await pool.acquire("i:1", deadline_seconds=60)
        running = asyncio.create_task(sandbox.run("sleep 500", timeout_seconds=500))
        api.lies.append(lambda request: status(500) if "/leases/" in request.path else None)
        with pytest.raises(InfrastructureError) as caught:
            await asyncio.wait_for(running, 60)
        assert caught.value.reason is FailureReason.LEASE_LOST
        api.lies.clear()


async def test_a_lease_that_is_renewed_is_kept(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials, lease_seconds=1) as pool:
        await asyncio.sleep(2.5)
        api.add_pod("p-0")
        assert await pool.acquire_pod("i:1", deadline_seconds=5)
    assert sum("PATCH" in write and "/leases/" in write for write in api.writes) >= 5


async def test_a_lease_that_was_taken_away_stops_the_holder(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials, lease_seconds=1) as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=30))
        await asyncio.sleep(0)
        del api.objects["/apis/coordination.k8s.io/v1/namespaces/default/leases/me"]
        with pytest.raises(InfrastructureError, match="taken away"):
            await waiting


async def test_a_holder_whose_pool_was_deleted_is_told_that(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials, lease_seconds=1) as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=30))
        await asyncio.sleep(0)
        del api.objects["/apis/sweyard.dev/v1alpha1/namespaces/default/rolloutpools/p"]
        del api.objects["/apis/coordination.k8s.io/v1/namespaces/default/leases/me"]
        with pytest.raises(InfrastructureError, match="the RolloutPool 'p' was deleted"):
            await waiting


async def test_a_holders_name_is_its_pods_numbered_when_taken(api: Any, credentials: Credentials) -> None:
    environment = {"SWEYARD_POD_NAME": "trainer-0"}
    names = []
    pools = [
        await Pool.connect(namespace="default", name="p", credentials=credentials, environment=environment)
        for _ in range(3)
    ]
    for pool in pools:
        names.append(pool.holder)
        await pool.close()
    assert names == ["trainer-0", "trainer-0-1", "trainer-0-2"]


POD_NAME = {"authentication.kubernetes.io/pod-name": ["job-0-x7k2p"]}


ACCOUNT = "system:serviceaccount:team:alice"


@pytest.mark.parametrize(
    ("user", "environment", "name"),
    [
        ({"username": ACCOUNT, "extra": POD_NAME}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, r"job-0-x7k2p"),
        ({"username": ACCOUNT}, {}, r"alice"),
        ({"username": "oidc:admin@example.com"}, {}, r"[a-z0-9]+-[0-9a-f]{10}"),
    ],
    ids=["a-pod-whose-host-is-named-otherwise", "an-account-outside-of-a-cluster", "a-person"],
)
async def test_a_holder_is_called_what_admission_knows_it_by(
    api: Any, credentials: Credentials, user: dict[str, Any], environment: dict[str, str], name: str
) -> None:
    api.user = user
    async with await Pool.connect(
        namespace="default", name="p", credentials=credentials, environment=environment
    ) as pool:
        assert re.fullmatch(name, pool.holder)


async def test_a_holder_who_may_not_ask_for_its_name_goes_by_the_users(api: Any, credentials: Credentials) -> None:
    api.lies.append(lambda request: status(403, "Forbidden") if "selfsubjectreviews" in request.path else None)
    async with await Pool.connect(namespace="default", name="p", credentials=credentials, environment={}) as pool:
        assert re.fullmatch(r"[a-z0-9]+-[0-9a-f]{10}", pool.holder)


async def test_a_given_name_that_is_taken_is_refused(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials):
        with pytest.raises(ValueError, match="'me'"):
            await connect(credentials)


def make_lease(server: object, clock: Callable[[], float]) -> HolderLease:
    return HolderLease(
        cast(ApiClient, server),
        namespace="n",
        pool="p",
        pool_uid="u",
        holder="h",
        duration_seconds=30,
        clock=clock,
    )


def test_a_renewal_that_hangs_is_made_again_before_the_lease_lapses() -> None:
    """A connection that died without a word shows only by a timeout, and an operator waits for no second period."""
    renewed: list[float] = []

    class Server:
        num_lost = 1

        async def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
            if method == "PATCH" and self.num_lost:
                self.num_lost -= 1
                await asyncio.sleep(10_000)
            renewed.append(asyncio.get_running_loop().time())
            return {"metadata": {"uid": "u"}}

    async def main() -> None:
        lease = make_lease(Server(), asyncio.get_running_loop().time)
        await lease.create()
        keeping = asyncio.create_task(lease.keep())
        await asyncio.sleep(100)
        assert not keeping.done()
        keeping.cancel()

    run_in_virtual_time(main())
    assert max(later - earlier for earlier, later in pairwise(renewed)) < 25


def test_who_blocks_the_event_loop_is_told_so() -> None:
    now = 0.0

    class Server:
        async def request(self, method: str, *_: Any, **__: Any) -> dict[str, Any]:
            nonlocal now
            now += 60.0 if method == "PATCH" else 0.0
            return {"metadata": {"uid": "u"}}

    async def main() -> None:
        lease = make_lease(Server(), lambda: now)
        await lease.create()
        assert "run in a thread what blocks its event loop" in str(await lease.keep())

    run_in_virtual_time(main())


async def test_renewals_do_not_queue_behind_hundreds_of_claims() -> None:
    free, renewed = asyncio.Event(), asyncio.Semaphore(0)

    async def answer(request: web.Request) -> web.Response:
        if "leases" in request.path:
            renewed.release()
        else:
            await free.wait()
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with TestServer(app) as server:
        client = ApiClient(Credentials(str(server.make_url("")).rstrip("/"), None, TokenSource(fixed="token")))
        claims = [asyncio.create_task(client.request("PATCH", "/api/v1/namespaces/n/pods/p")) for _ in range(200)]
        lease = HolderLease(client, namespace="n", pool="p", pool_uid="u", holder="h", duration_seconds=3)
        keeping = asyncio.create_task(lease.keep())
        async with asyncio.timeout(30):
            await renewed.acquire()
        free.set()
        await asyncio.gather(*claims)
        keeping.cancel()
        await asyncio.wait([keeping])
        await client.close()
