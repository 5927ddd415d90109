"""Batches of claims: all or none, and no two wait for each other."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_sandbox.errors import ClaimTimeoutError, InfrastructureError
from sweyard_sandbox.pool.credentials import Credentials


async def test_a_batch_comes_in_the_order_of_its_images(api: Any, credentials: Credentials) -> None:
    images = ["a:1", "b:1", "a:1", "c:1"]
    for number, image in enumerate(sorted(images)):
        api.add_pod(f"p-{number}", image=image)
    async with await connect(credentials) as pool:
        pods = await pool.acquire_pods(images, deadline_seconds=5)
        assert [pod.image for pod in pods] == images
        assert list(api.holders().values()) == ["me"] * 4
        assert await pool.acquire_pods([], deadline_seconds=5) == []


async def test_a_batch_holds_nothing_while_it_waits(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        batch = asyncio.create_task(pool.acquire_pods(["i:1"] * 3, deadline_seconds=10))
        await eventually(lambda: api.demand("me") == ["i:1"] * 3)
        for number in range(2):
            api.add_pod(f"p-{number}")
        # What it does not hold, others can have.
        single = await pool.acquire_pod("i:1", deadline_seconds=5)
        assert sorted(api.holders().values()) == ["", "me"]
        for number in range(2, 4):
            api.add_pod(f"p-{number}")
        assert single.uid not in {pod.uid for pod in await batch}
        assert list(api.holders().values()) == ["me"] * 4
        await eventually(lambda: api.demand("me") == [])


async def test_a_batch_past_its_deadline_leaves_everything_free(api: Any, credentials: Credentials) -> None:
    api.add_pod("p-0")
    async with await connect(credentials) as pool:
        with pytest.raises(ClaimTimeoutError):
            await pool.acquire_pods(["i:1", "i:2"], deadline_seconds=0.2)
        assert api.holders() == {"p-0": ""}
        assert (await pool.acquire_pod("i:1", deadline_seconds=5)).name == "p-0"


async def test_two_batches_that_need_all_there_is_take_turns(api: Any, credentials: Credentials) -> None:
    size = 8
    for number in range(size):
        api.add_pod(f"p-{number}")
    async with await connect(credentials, "a", seed=1) as first, await connect(credentials, "b", seed=2) as second:
        made = size

        async def work(pool: Any) -> None:
            nonlocal made
            pods = await pool.acquire_pods(["i:1"] * size, deadline_seconds=30)
            assert {api.holders()[pod.name] for pod in pods} == {pool.holder}
            for pod in pods:
                await pool.release_pod(pod)

        async def refill() -> None:
            """As the operator does, up to the cap."""
            nonlocal made
            while True:
                while len(api.holders()) < size:
                    api.add_pod(f"p-{made}")
                    made += 1
                await asyncio.sleep(0.01)

        refilling = asyncio.create_task(refill())
        await asyncio.gather(*(work(pool) for pool in (first, second) * 3))
        refilling.cancel()


async def test_a_batch_that_lost_one_of_its_pods_takes_another(api: Any, credentials: Credentials) -> None:
    for number in range(4):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        last = max(api.holders(), key=lambda name: api.pod(name)["metadata"]["uid"])
        lowest = sorted(api.holders(), key=lambda name: api.pod(name)["metadata"]["uid"])
        stolen = lowest[2]
        api.pod(stolen)["metadata"]["annotations"]["sweyard.dev/holder"] = "other"  # unseen by the watch
        pods = await pool.acquire_pods(["i:1"] * 3, deadline_seconds=5)
        assert {pod.name for pod in pods} == {lowest[0], lowest[1], last}


async def test_a_batch_that_cannot_be_whole_gives_everything_back(api: Any, credentials: Credentials) -> None:
    for number in range(3):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        lowest = sorted(api.holders(), key=lambda name: api.pod(name)["metadata"]["uid"])
        api.pod(lowest[2])["metadata"]["annotations"]["sweyard.dev/holder"] = "other"
        batch = asyncio.create_task(pool.acquire_pods(["i:1"] * 3, deadline_seconds=10))
        await eventually(lambda: list(api.holders().values()) == ["other"])
        for number in range(3, 6):
            api.add_pod(f"p-{number}")
        assert {pod.name for pod in await batch} == {"p-3", "p-4", "p-5"}


async def test_a_batch_whose_first_pod_is_lost_touches_no_other(api: Any, credentials: Credentials) -> None:
    for number in range(3):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        lowest = min(api.holders(), key=lambda name: api.pod(name)["metadata"]["uid"])
        api.pod(lowest)["metadata"]["annotations"]["sweyard.dev/holder"] = "other"
        api.writes.clear()
        with pytest.raises(ClaimTimeoutError):
            await pool.acquire_pods(["i:1"] * 3, deadline_seconds=0.5)
        assert [write for write in api.writes if "/pods/" in write] == [
            f"PATCH /api/v1/namespaces/default/pods/{lowest}"
        ]


async def test_a_batch_of_which_one_is_forbidden_fails_and_leaks_none(api: Any, credentials: Credentials) -> None:
    for number in range(3):
        api.add_pod(f"p-{number}")
    highest = max(api.holders(), key=lambda name: api.pod(name)["metadata"]["uid"])

    def refuse(request: web.Request) -> web.Response | None:
        is_it = request.method == "PATCH" and request.path.endswith(highest)
        return status(422, "Invalid", "policy denied request") if is_it else None

    api.lies.append(refuse)
    async with await connect(credentials) as pool:
        with pytest.raises(InfrastructureError, match="denied"):
            await pool.acquire_pods(["i:1"] * 3, deadline_seconds=5)
        assert api.holders() == {highest: ""}


@pytest.mark.parametrize("num_patches", [1, 2, 4])
async def test_a_cancelled_batch_holds_nothing(api: Any, credentials: Credentials, num_patches: int) -> None:
    for number in range(4):
        api.add_pod(f"p-{number}")
    seen, reached = 0, asyncio.Event()

    def count(request: web.Request) -> None:
        nonlocal seen
        seen += request.method == "PATCH"
        if seen == num_patches:
            reached.set()

    api.lies.append(count)
    async with await connect(credentials) as pool:
        batch = asyncio.create_task(pool.acquire_pods(["i:1"] * 4, deadline_seconds=5))
        await reached.wait()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        await eventually(lambda: "me" not in api.holders().values())
