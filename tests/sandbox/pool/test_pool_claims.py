"""Claims against an API server that lies."""

import asyncio
import re
from typing import Any

import pytest
from aiohttp import web
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError, WaitingReason
from sweyard_sandbox.pool.api import ApiError
from sweyard_sandbox.pool.credentials import Credentials
from sweyard_sandbox.pool.pool import Pool


async def test_a_claim_is_one_write_and_releasing_is_deleting(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        api.writes.clear()
        pod = await pool.acquire_pod("i:1", deadline_seconds=5)
        assert api.holders() == {"p-0": "me"}
        assert api.pod("p-0")["metadata"]["annotations"]["sweyard.dev/claimed-at"].endswith("Z")
        await pool.release_pod(pod)
        assert api.holders() == {}
    assert api.writes[:2] == [
        "PATCH /api/v1/namespaces/default/pods/p-0",
        "DELETE /api/v1/namespaces/default/pods/p-0",
    ]


async def test_the_lease_exists_before_the_first_claim_and_not_after_the_end(
    api: Any, credentials: Credentials
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/me"
    async with await connect(credentials):
        assert api.objects[lease]["metadata"]["labels"] == {"sweyard.dev/pool": "p"}
        assert api.objects[lease]["spec"]["leaseDurationSeconds"] == 30
    assert lease not in api.objects


async def test_two_holders_never_get_one_pod(api: Any, credentials: Credentials) -> None:
    for number in range(40):
        api.add_pod(f"p-{number}")
    async with await connect(credentials, "a") as first, await connect(credentials, "b") as second:
        claims = [pool.acquire_pod("i:1", deadline_seconds=10) for pool in [first, second] * 20]
        pods = await asyncio.gather(*claims)
        assert len({pod.uid for pod in pods}) == 40
        assert sorted(api.holders().values()) == ["a"] * 20 + ["b"] * 20


async def test_a_lost_race_tries_the_next_pod(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        api.pod("p-0")["metadata"]["annotations"]["sweyard.dev/holder"] = "other"  # unseen by the watch
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=5))
        await eventually(lambda: pool.num_lost_races == 1)
        api.add_pod("p-1")
        assert (await task).name == "p-1"


@pytest.mark.parametrize("change", ["leaving", "not-ready"])
async def test_a_pod_that_is_going_is_not_kept(api: Any, credentials: Credentials, change: str) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        if change == "leaving":
            api.pod("p-0")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            api.pod("p-0")["status"]["conditions"][0]["status"] = "False"
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=5))
        await eventually(lambda: "p-0" not in api.holders())
        api.add_pod("p-1")
        assert (await task).name == "p-1"


@pytest.mark.parametrize("kind", ["other-image", "held", "not-ready", "leaving", "no-annotation"])
async def test_only_free_ready_pods_of_the_image_are_tried(api: Any, credentials: Credentials, kind: str) -> None:
    match kind:
        case "other-image":
            api.add_pod("p-0", image="i:2")
        case "held":
            api.add_pod("p-0", holder="other")
        case "not-ready":
            api.add_pod("p-0", ready=False)
        case "leaving":
            api.add_pod("p-0", deletionTimestamp="2026-01-01T00:00:00Z")
        case "no-annotation":
            api.add_pod("p-0", holder=None)
    async with await connect(credentials) as pool:
        with pytest.raises(ClaimTimeoutError):
            await pool.acquire_pod("i:1", deadline_seconds=0.2)
    assert not [write for write in api.writes if "/pods/" in write]


async def test_waiting_claims_are_served_in_order(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        tasks = []
        for _ in range(3):
            tasks.append(asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=5)))
            await asyncio.sleep(0.01)
        for number, task in enumerate(tasks):
            api.add_pod(f"p-{number}")
            assert (await task).name == f"p-{number}"
            assert not any(later.done() for later in tasks[number + 1 :])


async def test_an_answer_that_got_lost_is_asked_for(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    lies = 1

    def carry_out_but_fail(request: web.Request) -> web.Response | None:
        nonlocal lies
        if request.method == "PATCH" and lies:
            lies = 0
            api.pod("p-0")["metadata"]["annotations"]["sweyard.dev/holder"] = "me"
            return status(504, "Timeout")
        return None

    api.lies.append(carry_out_but_fail)
    async with await connect(credentials) as pool:
        assert (await pool.acquire_pod("i:1", deadline_seconds=5)).name == "p-0"


@pytest.mark.parametrize("code", [429, 409, 500])
async def test_passing_refusals_do_not_lose_the_pod(api: Any, credentials: Credentials, code: int) -> None:
    api.add_pod("p-0")
    left = 2

    def refuse(request: web.Request) -> web.Response | None:
        nonlocal left
        if request.method == "PATCH" and left:
            left -= 1
            return status(code)
        return None

    api.lies.append(refuse)
    async with await connect(credentials) as pool:
        assert (await pool.acquire_pod("i:1", deadline_seconds=10)).name == "p-0"


async def test_what_is_forbidden_is_said_in_the_servers_words(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    words = "ValidatingAdmissionPolicy 'holder' denied request: not your pod"
    api.lies.append(lambda request: status(422, "Invalid", words) if request.method == "PATCH" else None)
    async with await connect(credentials) as pool:
        with pytest.raises(InfrastructureError, match="not your pod") as caught:
            await pool.acquire("i:1", deadline_seconds=5)
        assert caught.value.reason is FailureReason.FORBIDDEN


async def test_a_cancelled_claim_holds_nothing(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    begun = asyncio.Event()
    async with await connect(credentials) as pool:
        api.lies.append(lambda request: begun.set() if request.method == "PATCH" else None)
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=5))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: "p-0" not in api.holders() or api.holders()["p-0"] == "")


async def test_closing_gives_everything_back(api: Any, credentials: Credentials) -> None:
    for number in range(5):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        await asyncio.gather(*(pool.acquire_pod("i:1", deadline_seconds=5) for _ in range(3)))
    assert sorted(api.holders().values()) == ["", ""]


async def test_only_the_pod_that_was_claimed_is_deleted(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        pod = await pool.acquire_pod("i:1", deadline_seconds=5)
        api.remove("/api/v1/namespaces/default/pods/p-0")
        api.add_pod("p-0")
        await pool.release_pod(pod)
        assert api.holders() == {"p-0": ""}


async def test_a_dropped_watch_goes_on_where_it_was(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        await eventually(lambda: api.watchers)
        dropped = api.watchers[0]
        api.drop_watches()
        await eventually(lambda: dropped not in api.watchers)
        api.add_pod("p-0")
        assert (await pool.acquire_pod("i:1", deadline_seconds=10)).name == "p-0"
    assert api.num_lists == 1


@pytest.mark.parametrize("how", ["status", "event"])
async def test_a_watch_that_is_too_old_starts_over_with_a_list(api: Any, credentials: Credentials, how: str) -> None:
    async with await connect(credentials) as pool:
        await eventually(lambda: api.watchers)
        api.add_pod("p-0", tell=False)
        if how == "event":
            error = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}}
            api.tell({"type": "ERROR", "object": error})
            api.events.clear()
        else:
            gone = [True]
            api.lies.append(lambda request: status(410) if request.query.get("watch") and gone and gone.pop() else None)
            api.drop_watches()
        assert (await pool.acquire_pod("i:1", deadline_seconds=10)).name == "p-0"
    assert api.num_lists == 2


async def test_a_watch_that_is_forbidden_fails_at_once(api: Any, credentials: Credentials) -> None:
    api.lies.append(
        lambda request: status(403, "Forbidden", "cannot list pods") if request.path.endswith("/pods") else None
    )
    with pytest.raises(InfrastructureError, match="cannot list pods"):
        await connect(credentials)


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


async def test_announcing_is_one_write_and_replaces(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        api.writes.clear()
        await pool.announce(["a:1", "b:1"])
        await pool.announce(["a:1", "b:1"])
        await pool.announce(["c:1"])
        assert api.demand("me") == ["c:1"]
        assert len(api.writes) == 2
        owner = api.objects["/api/v1/namespaces/default/configmaps/me"]["metadata"]["ownerReferences"][0]
        assert owner["kind"] == "Lease"


@pytest.mark.parametrize("code", [500, 404, 403])
async def test_what_cannot_be_announced_now_is_announced_later_unless_it_is_refused(
    api: Any, credentials: Credentials, code: int
) -> None:
    async with await connect(credentials) as pool:
        await pool.announce(["a:1"])
        api.lies.append(lambda request: status(code) if request.method == "PATCH" else None)
        if code == 403:
            with pytest.raises(ApiError):
                await pool.announce(["b:1"])
            return
        await pool.announce(["b:1"])
        assert api.demand("me") == ["a:1"]
        api.lies.clear()
        await eventually(lambda: api.demand("me") == ["b:1"])


async def test_a_claim_that_nobody_announced_becomes_demand_while_it_waits(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=10))
        await eventually(lambda: api.demand("me") == ["i:1"])
        api.add_pod("p-0")
        await task
        await eventually(lambda: api.demand("me") == [])


async def test_claims_use_up_what_was_announced_with_few_writes(api: Any, credentials: Credentials) -> None:
    for number in range(20):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        await pool.announce(["i:1"] * 20 + ["later:1"])
        await asyncio.gather(*(pool.acquire_pod("i:1", deadline_seconds=5) for _ in range(20)))
        await eventually(lambda: api.demand("me") == ["later:1"])
        assert sum("configmaps" in write for write in api.writes) <= 3


async def test_a_timeout_says_what_the_pool_waits_for(api: Any, credentials: Credentials) -> None:
    condition = {"type": "Degraded", "status": "True", "reason": "ImagePull", "message": "i:1: manifest unknown"}
    api.put(
        "/apis/sweyard.dev/v1alpha1/namespaces/default/rolloutpools/p",
        {"spec": {"replicas": 2}, "status": {"claimed": 2, "conditions": [condition]}},
    )
    async with await connect(credentials) as pool:
        with pytest.raises(ClaimTimeoutError, match=r"cap of 2 .*ImagePull: i:1: manifest unknown") as caught:
            await pool.acquire("i:1", deadline_seconds=0.1)
        assert caught.value.waited_for is WaitingReason.CAP_REACHED


async def test_who_waits_can_ask_why(api: Any, credentials: Credentials) -> None:
    ready = {"type": "Ready", "status": "False", "reason": "SandboxesStarting", "message": "0 of 1"}
    path = "/apis/sweyard.dev/v1alpha1/namespaces/default/rolloutpools/p"
    api.put(path, {"spec": {"replicas": 2}, "status": {"conditions": [ready]}})
    async with await connect(credentials) as pool:
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=10))
        await eventually(lambda: pool.num_waiting("i:1") == 1)
        assert (await pool.explain_waiting("i:1")).reason is WaitingReason.QUEUED
        api.add_pod("p-0", phase="Pending", ready=False)
        pulling = {"name": "sandbox", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}}
        api.pod("p-0")["status"]["containerStatuses"] = [pulling]
        waiting = await pool.explain_waiting("i:1")
        assert waiting.reason is WaitingReason.IMAGE_PULL
        assert "no such tag" in waiting.message
        api.remove("/api/v1/namespaces/default/pods/p-0")
        del api.objects[path]
        assert (await pool.explain_waiting("i:1")).reason is WaitingReason.POOL_MISSING
        api.lies.append(lambda request: status(503, "Unavailable") if "rolloutpools" in request.path else None)
        assert (await pool.explain_waiting("i:1")).reason is WaitingReason.API_UNREACHABLE
        api.add_pod("p-1")
        assert (await task).name == "p-1"
        assert pool.num_waiting("i:1") == 0


async def test_who_lost_races_keeps_the_place_in_the_queue(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        tasks = [asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=10)) for _ in range(3)]
        await eventually(lambda: pool.num_waiting("i:1") == 3)
        stolen: list[str] = []

        def steal(request: web.Request) -> web.Response | None:
            name = request.path.rsplit("/", 1)[1]
            if request.method == "PATCH" and name.startswith("p-") and len(stolen) < 2:
                stolen.append(name)
                return status(422, "Invalid", "the server rejected our request")
            return None

        api.lies.append(steal)
        api.add_pod("p-0")
        api.add_pod("p-1")
        await eventually(lambda: pool.num_lost_races == 2)
        await eventually(lambda: pool.num_waiting("i:1") == 3)
        for number, task in enumerate(tasks):
            api.add_pod(f"p-{number + 2}")
            assert (await task).name == f"p-{number + 2}"
