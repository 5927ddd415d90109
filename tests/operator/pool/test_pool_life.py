"""A pool from creation to deletion, on an API server that tells the truth."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_api.constants import ANNOTATION_IMAGE
from sweyard_operator.resources import CONFIG_MAPS, IMAGE_CACHES, LEASES, NETWORK_POLICIES, NODES, PODS, ROLLOUT_POOLS

IMAGE = "registry.test/task:1"
OTHER = "registry.test/other:1"


def warm(replicas: int, image: str = IMAGE) -> list[dict[str, Any]]:
    return [{"image": image, "replicas": replicas}]


def test_warm_count_is_reached_and_said(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=8, warm=warm(5))
        await world.until(lambda: world.status().get("ready") == 5)
        assert world.condition("Ready")["status"] == "True"
        assert world.condition("Degraded")["status"] == "False"
        assert world.status()["observedGeneration"] == 1
        assert len(world.created_uids()) == 5
        assert [pod["metadata"]["name"] for pod in world.pods()] == [f"pool-{slot}" for slot in range(5)]

    play(story)


def test_network_policy_precedes_the_first_pod(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(2))
        await world.until(lambda: world.status().get("ready") == 2)
        order = [change.resource for change in world.api.store.history if change.resource in (PODS, NETWORK_POLICIES)]
        assert order[0] == NETWORK_POLICIES

    play(story)


def test_a_settled_pool_is_left_alone(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=8, warm=warm(5))
        await world.until(lambda: world.status().get("ready") == 5)
        await world.sleep(60)
        before = len(world.api.requests)
        await world.sleep(120)
        writes = [method for method, _ in world.api.requests[before:] if method != "GET"]
        assert writes == []

    play(story)


def test_claimed_sandboxes_are_replaced_up_to_the_cap(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=6, warm=warm(4))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 4)
        claimed = [world.claim("holder") for _ in range(4)]
        assert len(set(claimed)) == 4
        await world.until(lambda: world.status()["ready"] == 2)
        await world.sleep(30)
        assert (world.status()["claimed"], len(world.pods())) == (4, 6)
        for uid in claimed:
            world.release(uid)
        await world.until(lambda: (world.status()["ready"], world.status()["claimed"]) == (4, 0))

    play(story)


def test_demand_is_served_in_turns(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4)
        world.join("greedy", [IMAGE] * 10)
        world.join("modest", [OTHER] * 2)
        await world.until(lambda: world.status().get("ready") == 4)
        await world.sleep(30)
        assert (len(world.pods(image=IMAGE)), len(world.pods(image=OTHER))) == (2, 2)
        assert world.status()["demand"] == 12

    play(story)


def test_new_demand_takes_the_place_of_what_nobody_wants(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4, unclaimedTTLSeconds=3_600)
        world.join("holder", [IMAGE] * 4)
        await world.until(lambda: world.status().get("ready") == 4)
        world.announce("holder", [OTHER] * 3)
        await world.until(lambda: len(world.pods(image=OTHER, ready=True)) == 3)
        await world.sleep(30)
        assert len(world.pods(image=IMAGE)) == 1

    play(story)


def test_unwanted_sandboxes_go_after_their_time(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4, unclaimedTTLSeconds=100)
        world.join("holder", [IMAGE] * 3)
        await world.until(lambda: world.status().get("ready") == 3)
        world.announce("holder", [])
        await world.sleep(90)
        assert len(world.pods()) == 3
        await world.until(lambda: not world.pods(), 60)

    play(story)


@pytest.mark.parametrize("restarts", [0, 1], ids=["same-process", "restarted-operator"])
def test_a_dead_holders_sandboxes_and_demand_are_reaped(play: Callable[..., None], restarts: int) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=6)
        world.join("dead", [IMAGE] * 3)
        world.join("alive", [OTHER] * 3)
        await world.until(lambda: world.status().get("ready") == 6)
        lost = [world.claim("dead", IMAGE), world.claim("dead", IMAGE)]
        kept = world.claim("alive", OTHER)
        world.die("dead")
        await world.sleep(30)
        for _ in range(restarts):
            await world.process.kill()
            await world.process.start()
        assert {pod["metadata"]["uid"] for pod in world.pods(holder="dead")} == set(lost)
        await world.until(lambda: not world.pods(holder="dead"), 90)
        await world.until(lambda: not world.exists(LEASES, "dead") and not world.exists(CONFIG_MAPS, "dead"), 30)
        assert [pod["metadata"]["uid"] for pod in world.pods(holder="alive")] == [kept]

    play(story)


def test_shrinking_removes_free_sandboxes_and_no_claimed_one(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=8, warm=warm(8))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 8)
        claimed = {world.claim("holder") for _ in range(5)}
        world.edit_pool(replicas=3)
        await world.until(lambda: len(world.pods()) == 5)
        await world.sleep(60)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == claimed
        for uid in claimed:
            world.release(uid)
        await world.until(lambda: world.status()["ready"] == 3 and len(world.pods()) == 3)
        assert {pod["metadata"]["name"] for pod in world.pods()} == {"pool-0", "pool-1", "pool-2"}

    play(story)


def test_a_template_change_rolls_free_sandboxes_within_the_cap(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=8, warm=warm(8))
        await world.until(lambda: world.status().get("ready") == 8)
        world.join("holder")
        claimed = world.claim("holder")
        world.edit_pool(template={"runAsUser": 1000})
        fewest = 8
        for _ in range(600):
            await world.sleep(0.2)
            fewest = min(fewest, len(world.pods(ready=True)))
            assert len(world.pods()) <= 8
        users = [pod["spec"]["containers"][0]["securityContext"].get("runAsUser") for pod in world.pods(holder="")]
        assert users == [1000] * 7
        assert fewest >= 4
        assert [pod["metadata"]["uid"] for pod in world.pods(holder="holder")] == [claimed]

    play(story)


def test_deleting_the_pool_leaves_nothing(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=6, warm=warm(3))
        world.join("holder", [OTHER] * 2)
        await world.until(lambda: world.status().get("ready") == 5)
        world.claim("holder")
        world.delete_pool()
        world.die("holder")
        await world.sleep(200)
        left = [address for address in world.api.store.objects if address[0] not in (NODES,)]
        events = [address for address in left if address[0].kind == "Event"]
        assert [address for address in left if address not in events] == []

    play(story)


def test_a_recreated_pool_of_the_same_name_adopts_nothing(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=3, warm=warm(3))
        await world.until(lambda: world.status().get("ready") == 3)
        old = world.created_uids()
        world.delete_pool()
        uid = world.create_pool(replicas=3, warm=warm(3))
        await world.until(lambda: world.status().get("ready") == 3)
        assert old.isdisjoint(pod["metadata"]["uid"] for pod in world.pods())
        assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in world.pods()} == {uid}

    play(story)


def test_free_sandboxes_are_renewed_long_before_their_lifetime_ends(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4, warm=warm(2), maxLifetimeSeconds=400)
        await world.until(lambda: world.status().get("ready") == 2)
        for _ in range(300):
            await world.sleep(2)
            assert world.status()["ready"] >= 1
        assert world.status().get("failures", {}) == {}
        assert len(world.created_uids()) <= 14

    play(story)


def test_a_spec_that_our_models_refuse_is_named_in_the_condition(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=[{"image": "no-tag", "replicas": 1}])
        await world.until(lambda: bool(world.status()))
        assert world.condition("Ready")["reason"] == "InvalidSpec"
        assert world.condition("Ready")["message"].startswith("spec.warm.0.image")
        assert world.pods() == []
        assert world.exists(ROLLOUT_POOLS, "pool")

    play(story)


def test_a_sandbox_claimed_while_it_is_being_taken_back_is_kept(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=20, warm=warm(20))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 20)
        # Slow replies: between the operator's look and its deletions lies a second in which clients claim.
        world.api.lies.latency_seconds = 1.0
        world.edit_pool(replicas=0)
        claimed = []
        # Slower than one reply: whenever in that second the operator looks, not all are claimed when it deletes.
        for _ in range(50):
            await world.sleep(0.1)
            claimed.append(world.claim("holder"))
        kept = {uid for uid in claimed if uid is not None}
        assert 2 <= len(kept) < 20
        await world.sleep(120)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == kept

    play(story)


def test_sandboxes_are_pulled_from_the_mirrors_of_the_pools_cache(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        mirror = {"registry": "registry.test", "mirror": "mirror.lan:5000/m"}
        cache = {"metadata": {"name": "c", "namespace": "team"}, "spec": {"images": [IMAGE], "mirrors": [mirror]}}
        world.api.store.create(IMAGE_CACHES, cache)
        world.create_pool(replicas=2, warm=warm(2), imageCacheRef="c")
        await world.until(lambda: len(world.pods()) == 2)
        assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"mirror.lan:5000/m/task:1"}
        assert {pod["metadata"]["annotations"][ANNOTATION_IMAGE] for pod in world.pods()} == {IMAGE}

    play(story)
