"""Claims against an API server that lies."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError, WaitingReason
from sweyard_sandbox.pool.credentials import Credentials


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
    """Which takes nothing away from who holds it."""
    api.add_pod("held")
    async with await connect(credentials) as pool:
        await pool.acquire_pod("i:1", deadline_seconds=10)
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
        assert api.holders() == {"held": "me", "p-0": "me"}
    assert api.num_lists == 2


async def test_a_watch_that_is_forbidden_fails_at_once(api: Any, credentials: Credentials) -> None:
    api.lies.append(
        lambda request: status(403, "Forbidden", "cannot list pods") if request.path.endswith("/pods") else None
    )
    with pytest.raises(InfrastructureError, match="cannot list pods"):
        await connect(credentials)


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
