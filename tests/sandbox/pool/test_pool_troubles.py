"""What goes wrong between a holder and the API server, and what must not come of it: a leak, or a pod claimed twice."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError, WaitingReason
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.claiming import Claims
from sweyard_sandbox.pool.credentials import Credentials, TokenSource
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.lease import HolderLease
from sweyard_sandbox.pool.store import PodStore
from sweyard_sandbox.pool.watching import PodWatch

HOLDER = "sweyard.dev/holder"
POD = "/api/v1/namespaces/default/pods/p-0"


async def test_a_patch_that_takes_effect_after_it_was_given_up_is_given_back(
    api: Any, credentials: Credentials
) -> None:
    """The answer is lost, the pod still looks free when asked, and only then the patch is carried out."""
    api.add_pod("p-0")
    lost = [True]
    api.lies.append(lambda request: status(504) if request.method == "PATCH" and lost and lost.pop() else None)
    async with await connect(credentials) as pool:
        first = await pool.acquire_pod("i:1", deadline_seconds=5)
        await pool.release_pod(first)
        api.add_pod("p-1", holder="me")
        await eventually(lambda: api.holders() == {})
    assert not [write for write in api.writes if write.startswith("PATCH") and "p-1" in write]


async def test_what_an_earlier_process_of_the_name_held_is_given_back(api: Any, credentials: Credentials) -> None:
    """Its Lease is gone and ours has taken the name, so that to the operator the pod looks held by a live holder."""
    api.add_pod("p-0", holder="me")
    api.add_pod("p-1", holder="other")
    api.add_pod("p-2")
    async with await connect(credentials) as pool:
        await eventually(lambda: "p-0" not in api.holders())
        assert (await pool.acquire_pod("i:1", deadline_seconds=5)).name == "p-2"
        assert api.holders() == {"p-1": "other", "p-2": "me"}


async def test_a_claim_is_not_given_back_when_the_watch_is_faster_than_the_answer(
    api: Any, credentials: Credentials
) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        await eventually(lambda: api.watchers)

        def tell_before(request: web.Request) -> None:
            if request.method == "PATCH" and request.path == POD:
                pod = api.pod("p-0")
                annotations = {**pod["metadata"]["annotations"], HOLDER: "me"}
                api.tell(
                    {"type": "MODIFIED", "object": {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}}
                )

        api.lies.append(tell_before)
        assert await pool.acquire_pod("i:1", deadline_seconds=5)
        api.drop_watches()
        await asyncio.sleep(0.3)
        assert api.holders() == {"p-0": "me"}


@pytest.mark.parametrize("how", ["gone", "replaced"])
async def test_a_pod_deleted_in_the_same_moment_is_not_had(api: Any, credentials: Credentials, how: str) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        old = api.objects.pop(POD)
        if how == "replaced":
            api.add_pod("p-0", tell=False, ready=False)
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=5))
        await eventually(lambda: pool.num_lost_races == 1)
        assert api.holders() == ({"p-0": ""} if how == "replaced" else {})
        api.tell({"type": "DELETED", "object": old})
        api.add_pod("p-1")
        assert (await task).name == "p-1"


async def test_a_release_that_the_server_cannot_take_now_is_made_later(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        pod = await pool.acquire_pod("i:1", deadline_seconds=5)
        api.lies.append(lambda request: status(500) if request.method == "DELETE" else None)
        await pool.release_pod(pod)
        assert api.holders() == {"p-0": "me"}
        api.lies.clear()
        await eventually(lambda: api.holders() == {})


async def test_a_pool_that_is_closed_twice_is_closed(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    pool = await connect(credentials)
    await pool.acquire_pod("i:1", deadline_seconds=5)
    await pool.close()
    await pool.close()
    assert api.holders() == {}
    with pytest.raises(InfrastructureError, match="is closed"):
        await pool.acquire_pod("i:1", deadline_seconds=5)


async def test_closing_does_not_wait_for_a_server_that_is_away(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    pool = await connect(credentials)
    api.lies.append(lambda request: status(503) if "/pods/" in request.path else None)
    task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=60))
    await eventually(lambda: any("PATCH" in write for write in api.writes))
    async with asyncio.timeout(10):
        task.cancel()
        await pool.close()
    # The Lease has gone, and with it the operator takes what it held.
    assert not [path for path in api.objects if "/leases/" in path]


async def test_being_refused_for_load_spreads_what_comes_back(api: Any, credentials: Credentials) -> None:
    refused: set[str] = set()
    times: list[float] = []
    loop = asyncio.get_running_loop()

    def refuse_once(request: web.Request) -> web.Response | None:
        if request.method != "PATCH":
            return None
        if request.path not in refused:
            refused.add(request.path)
            return web.json_response({}, status=429, headers={"Retry-After": "1"})
        times.append(loop.time())
        return None

    for number in range(8):
        api.add_pod(f"p-{number}")
    api.lies.append(refuse_once)
    async with await connect(credentials) as pool:
        began = loop.time()
        await asyncio.gather(*(pool.acquire_pod("i:1", deadline_seconds=10) for _ in range(8)))
    assert min(times) - began >= 1.0
    assert max(times) - min(times) > 0.05


async def test_a_token_that_is_refused_is_read_again(api: Any, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("old")
    client = ApiClient(Credentials(api.url, None, TokenSource(path=tmp_path / "token")))

    def check(request: web.Request) -> web.Response | None:
        return None if request.headers["Authorization"] == "Bearer new" else status(401, "Unauthorized")

    api.lies.append(check)
    api.add_pod("p-0")
    try:
        (tmp_path / "token").write_text("new")
        assert (await client.request("GET", POD))["metadata"]["name"] == "p-0"
        api.lies[:] = [lambda request: status(401, "Unauthorized", "for good")]
        with pytest.raises(Exception, match="for good"):
            await client.request("GET", POD)
    finally:
        await client.close()


async def answer_to_the_new_token(request: web.Request) -> web.StreamResponse:
    if request.path == "/any":
        return web.Response(text="any token will do")
    if request.headers["Authorization"] != "Bearer new":
        return web.Response(status=401)
    if request.path == "/watch":
        return web.Response(text='{"type": "ADDED"}\n')
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.send_str("hello")
    return socket


@pytest.mark.parametrize("kind", ["websocket", "watch"])
async def test_streams_get_over_a_token_that_was_replaced(tmp_path: Any, kind: str) -> None:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer_to_the_new_token)
    token = tmp_path / "token"
    token.write_text("old")
    async with TestServer(app) as server:
        client = ApiClient(Credentials(str(server.make_url("")).rstrip("/"), None, TokenSource(path=token)))
        try:
            await client.read_text("/any")  # now the old one is known
            token.write_text("new")
            if kind == "websocket":
                opened = await client.websocket("/exec", [], protocols=(), heartbeat_seconds=5)
                assert await opened.receive_str() == "hello"
                await opened.close()
            else:
                with pytest.raises(ApiError, match="401"):  # whoever watches begins again
                    _ = [event async for event in client.stream("/watch", {}, silence_seconds=5)]
                assert [event async for event in client.stream("/watch", {}, silence_seconds=5)] == [{"type": "ADDED"}]
        finally:
            await client.close()


async def test_a_silent_watch_is_given_up_and_begun_again(api: Any, client: ApiClient) -> None:
    store = PodStore(random.Random(1))
    demand = Demand(client, namespace="default", pool="p", holder="me", lease_uid="u")
    claims = Claims(client, store, demand, namespace="default", holder="me")
    watch = PodWatch(client, "default", "p", store, claims, silence_seconds=0.3)
    task = asyncio.create_task(watch.run())
    await eventually(lambda: api.watchers)
    dead = api.watchers.pop()
    api.add_pod("p-0")
    await eventually(lambda: store.num_free("i:1") == 1)
    api.watchers.append(dead)
    assert api.num_lists == 1
    task.cancel()


async def test_a_client_that_was_closed_reaches_nobody(client: ApiClient) -> None:
    """As what is left of a holder that is over may find; aiohttp would raise RuntimeError."""
    await client.close()
    with pytest.raises(UnreachableError, match="closed"):
        await client.request("GET", POD)
    with pytest.raises(UnreachableError, match="closed"):
        await anext(client.stream(POD, {}, silence_seconds=1))
    with pytest.raises(UnreachableError, match="closed"):
        await client.websocket(POD, [], protocols=("v5.channel.k8s.io",), heartbeat_seconds=1)


async def test_a_clock_that_is_wrong_stops_nobody(api: Any, client: ApiClient) -> None:
    """The wall clock is only told; what is counted is monotonic, here and in the operator."""
    jumps = iter(range(100))
    lease = HolderLease(
        client,
        namespace="default",
        pool="p",
        pool_uid="u",
        holder="me",
        duration_seconds=1,
        wall_clock=lambda: datetime(2001, 1, 1, tzinfo=UTC) - timedelta(hours=next(jumps)),
    )
    assert await lease.create()
    keeping = asyncio.create_task(lease.keep())
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/me"
    first = api.objects[path]["spec"]["renewTime"]
    await eventually(lambda: api.objects[path]["spec"]["renewTime"] < first)
    await asyncio.sleep(1.5)
    assert not keeping.done()
    keeping.cancel()


async def test_a_lapsed_lease_ends_a_claim_whose_answer_was_lost(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials, lease_seconds=1) as pool:
        api.lies.append(lambda request: status(500) if request.method != "GET" or "/pods/" in request.path else None)
        with pytest.raises(InfrastructureError) as caught:
            await pool.acquire_pod("i:1", deadline_seconds=20)
        assert caught.value.reason is FailureReason.LEASE_LOST
        api.lies.clear()


async def test_sandboxes_that_die_one_after_the_other_do_not_use_up_the_pool(
    api: Any, credentials: Credentials
) -> None:
    for number in range(10):
        api.add_pod(f"p-{number}")

    def die(request: web.Request) -> web.Response | None:
        if not request.path.endswith("/exec"):
            return None
        api.remove(request.path.removesuffix("/exec"))
        return status(404, "NotFound")

    api.lies.append(die)
    async with await connect(credentials) as pool:
        with pytest.raises(InfrastructureError, match="3 sandboxes in a row") as caught:
            await pool.acquire("i:1", deadline_seconds=60)
        assert caught.value.reason is FailureReason.CHANNEL_LOST
        assert list(api.holders().values()) == [""] * 7


async def test_a_stream_that_opens_late_costs_no_sandbox(api: Any, credentials: Credentials) -> None:
    """As while an API server restarts: the deadline says that it was the stream, and the pod is given back."""
    api.add_pod("p-0")
    api.lies.append(lambda request: status(500) if request.path.endswith("/exec") else None)
    async with await connect(credentials) as pool:
        with pytest.raises(ClaimTimeoutError, match="not every stream opened") as caught:
            await pool.acquire("i:1", deadline_seconds=0.5)
        assert caught.value.waited_for is WaitingReason.CHANNEL
        assert api.holders() == {}


async def test_a_watch_that_is_heard_again_is_no_reason_to_wait_though_nothing_happens(
    api: Any, credentials: Credentials
) -> None:
    api.put("/apis/sweyard.dev/v1alpha1/namespaces/default/rolloutpools/p", {"spec": {"replicas": 2}, "status": {}})
    async with await connect(credentials) as pool:
        await eventually(lambda: api.watchers)
        cuts = [True, True]  # an idle connection that breaks is tried once more

        def cut(request: web.Request) -> web.Response | None:
            if not (request.query.get("watch") and cuts and request.transport):
                return None
            request.transport.close()
            cuts.pop()
            return web.Response()

        api.lies.append(cut)
        api.drop_watches()
        await eventually(lambda: not cuts)
        await asyncio.sleep(0.1)
        assert (await pool.explain_waiting("i:1")).reason is WaitingReason.API_UNREACHABLE
        await eventually(lambda: api.watchers)
        await asyncio.sleep(0.1)
        assert (await pool.explain_waiting("i:1")).reason is WaitingReason.OPERATOR_SILENT


async def test_a_watch_whose_token_has_expired_goes_on_with_another(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        await eventually(lambda: api.watchers)
        expired = [True]
        api.lies.append(
            lambda request: (
                status(401, "Unauthorized") if request.query.get("watch") and expired and expired.pop() else None
            )
        )
        api.drop_watches()
        await eventually(lambda: not expired)
        api.add_pod("p-0")
        assert (await pool.acquire_pod("i:1", deadline_seconds=5)).name == "p-0"
