"""Creations are paced by what nodes start, and stop when most of them fail."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sweyard_operator.plan.pacing import room_to_start
from sweyard_operator.plan.pool_state import Census
from sweyard_operator.plan.sandbox import Failure, SandboxPod
from sweyard_operator.plan.stage_times import passed_stages, stage_seconds
from sweyard_operator.plan.start_breaker import StartBreaker

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
IMAGE = "registry.test/task:1"
OTHER = "registry.test/other:1"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def pod(slot: int, **changes: Any) -> SandboxPod:
    base = SandboxPod(
        name=f"pool-{slot}", uid=f"uid-{slot}", resource_version="1", slot=slot, image=IMAGE, created_at=NOW
    )
    return replace(base, **changes)


def census(*free: SandboxPod, claimed: tuple[SandboxPod, ...] = ()) -> Census:
    return Census(at(60), (), (), claimed, free)


@pytest.mark.parametrize(
    ("free", "room"),
    [
        pytest.param((), 4, id="nothing-yet-one-node-assumed"),
        pytest.param((pod(0),), 3, id="not-scheduled"),
        pytest.param((pod(0, node="a"), pod(1, node="b")), 6, id="two-nodes-seen"),
        pytest.param((pod(0, node="a", is_ready=True),), 4, id="ready-ones-burden-nobody"),
        pytest.param((pod(0, unschedulable_message="0/3 nodes"),), 4, id="unschedulable-is-for-an-autoscaler-to-see"),
        pytest.param((pod(0, node="a", networked_at=at(55)),), 3, id="container-about-to-start"),
        pytest.param((pod(0, node="a", networked_at=at(10)),), 4, id="pulling-its-image"),
        pytest.param(
            (pod(0, node="a", networked_at=at(10), waiting_reason="ContainerCreating"),), 4, id="pulling-and-saying-so"
        ),
        pytest.param(
            (pod(0, node="a", networked_at=at(10), waiting_reason="ImagePullBackOff"),), 3, id="pull-that-fails"
        ),
        pytest.param(tuple(pod(slot) for slot in range(9)), 0, id="never-negative"),
    ],
)
def test_room_to_start(free: tuple[SandboxPod, ...], room: int) -> None:
    assert room_to_start(census(*free), max_starting_per_node=4) == room


def test_claimed_sandboxes_show_nodes_too() -> None:
    claimed = (pod(0, node="a", holder="h"), pod(1, node="b", holder="h"), pod(2, node="c", holder="h"))
    assert room_to_start(census(claimed=claimed), max_starting_per_node=4) == 12


def test_breaker_opens_for_one_reason_and_closes_at_the_first_success() -> None:
    breaker = StartBreaker()
    for _ in range(4):
        breaker.record_failure(Failure("ImagePull", "no"), now=0.0)
        breaker.record_failure(Failure("Error", "no"), now=0.0)
    assert breaker.find_breach(0.0) is None, "four of each reason are too few to tell"
    for second in range(4):
        breaker.record_failure(Failure("ImagePull", f"no {second}"), now=0.0)
    breach = breaker.find_breach(10.0)
    assert breach is None, "it has faded below the least number"
    breaker.record_failure(Failure("ImagePull", "the last"), now=0.0)
    breach = breaker.find_breach(10.0)
    assert breach is not None
    assert (breach.failure.message, breach.probe_in_seconds) == ("the last", 20.0)
    breaker.record_success(40.0)
    assert breaker.find_breach(40.0) is None


def test_failures_among_many_successes_open_nothing() -> None:
    breaker = StartBreaker()
    for _ in range(20):
        breaker.record_success(0.0)
    for _ in range(19):
        breaker.record_failure(Failure("ImagePull", "no"), now=0.0)
    assert breaker.find_breach(0.0) is None


def test_each_stage_is_told_once_and_in_its_own_seconds() -> None:
    created = pod(0)
    scheduled = replace(created, node="a", scheduled_at=at(1))
    ready = replace(
        scheduled, networked_at=at(3), started_at=at(33), is_ready=True, ready_changed_at=at(34), is_running=True
    )
    claimed = replace(ready, holder="h", claimed_at=at(94))
    released = replace(claimed, is_ready=False, deletion_due_at=at(394))
    assert passed_stages(created, scheduled) == {"scheduled": 1.0}
    assert passed_stages(scheduled, ready) == {"networked": 2.0, "pulled": 30.0, "ready": 1.0}
    assert passed_stages(ready, claimed) == {"claimed": 60.0}
    assert passed_stages(claimed, released) == {"released": 300.0}
    assert passed_stages(released, released) == {}
    assert stage_seconds(created) == {}


def test_a_node_never_starts_more_than_its_share(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=200, warm=[{"image": IMAGE, "replicas": 160}])
        while world.status().get("ready") != 160:
            await world.sleep(0.1)
            # Two nodes, 32 each.
            assert len(world.pods(ready=False)) <= 64
        assert world.condition("Ready")["status"] == "True"
        assert len(world.created_uids()) == 160

    play(story)


def test_paced_creations_are_said(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.nodes.startup_seconds = 30.0
        world.create_pool(replicas=100, warm=[{"image": IMAGE, "replicas": 100}])
        await world.until(lambda: "follow" in world.condition("Progressing")["message"] if world.status() else False)
        # Two nodes: twice 32 at once.
        await world.until(
            lambda: world.condition("Progressing")["message"] == "64 sandboxes are starting, 36 follow as these come up"
        )

    play(story)


def test_a_wave_that_fails_is_not_made_again_and_again(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.nodes.unpullable = {IMAGE: "connection refused", OTHER: "connection refused"}
        warm = [{"image": IMAGE, "replicas": 20}, {"image": OTHER, "replicas": 20}]
        world.create_pool(replicas=40, warm=warm, startupDeadlineSeconds=60)
        await world.until(lambda: world.status().get("failures", {}).get("ImagePull", 0) >= 40, 300)
        made = len(world.created_uids())
        await world.sleep(300)
        assert len(world.created_uids()) - made <= 10, "one at a time"
        degraded = world.condition("Degraded")
        assert (degraded["status"], degraded["reason"]) == ("True", "ImagePull")
        assert "one at a time is tried" in degraded["message"]
        assert "connection refused" in degraded["message"]
        world.nodes.unpullable = {}
        await world.until(lambda: world.status().get("ready") == 40, 900)
        assert world.condition("Degraded")["reason"] != "ImagePull"

    play(story)


def test_an_image_that_serves_is_not_held_up_by_others(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        bad = [f"registry.test/bad-{number}:1" for number in range(12)]
        world.nodes.unpullable = dict.fromkeys(bad, "connection refused")
        warm = [{"image": IMAGE, "replicas": 2}, *({"image": image, "replicas": 1} for image in bad)]
        world.create_pool(replicas=20, warm=warm, startupDeadlineSeconds=60)
        world.join("holder")
        await world.until(
            lambda: "one at a time" in world.condition("Degraded")["message"] if world.status() else False, 300
        )
        uid = world.claim("holder", IMAGE)
        assert uid is not None
        await world.until(lambda: len(world.pods(image=IMAGE, holder="", ready=True)) == 2, 10)

    play(story)
