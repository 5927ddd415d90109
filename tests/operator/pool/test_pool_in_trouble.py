"""A pool when something goes wrong: sandboxes and nodes that fail, refusals, outages, a killed operator."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sweyard_api.constants import ANNOTATION_CLAIMED_AT, ANNOTATION_HOLDER
from sweyard_api.kinds import ROLLOUT_POOL
from sweyard_operator.resources import PODS

IMAGE = "registry.test/task:1"
OTHER = "registry.test/other:1"


def warm(replicas: int, image: str = IMAGE) -> list[dict[str, Any]]:
    return [{"image": image, "replicas": replicas}]


def test_an_outage_of_the_api_server_reaps_nobody(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4)
        world.join("holder", [IMAGE] * 2)
        await world.until(lambda: world.status().get("ready") == 2)
        claimed = world.claim("holder")
        await world.sleep(20)
        world.api.lies.is_down = True
        await world.sleep(600)
        world.api.lies.is_down = False
        await world.sleep(300)
        assert [pod["metadata"]["uid"] for pod in world.pods(holder="holder")] == [claimed]

    play(story)


def test_a_deaf_watch_reaps_nobody(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4)
        world.join("holder", [IMAGE] * 2)
        await world.until(lambda: world.status().get("ready") == 2)
        claimed = world.claim("holder")
        world.api.lies.deaf_watches = True
        await world.sleep(300)
        assert [pod["metadata"]["uid"] for pod in world.pods(holder="holder")] == [claimed]

    play(story)


@pytest.mark.parametrize(
    ("reason", "status", "word"),
    [
        ("OOMKilled", {}, "OOMKilled"),
        ("Error", {}, "Error"),
        ("Error", {"reason": "Evicted", "message": "The node was low on resource: memory."}, "Evicted"),
        ("Error", {"reason": "NodeLost"}, "NodeLost"),
        ("Error", {"reason": "OutOfcpu"}, "Unschedulable"),
    ],
)
def test_a_failed_free_sandbox_is_counted_once_and_replaced(
    play: Callable[..., None], reason: str, status: dict[str, str], word: str
) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=3, warm=warm(3))
        await world.until(lambda: world.status().get("ready") == 3)
        world.nodes.end("team", "pool-1", reason=reason, status=status)
        await world.until(lambda: world.status().get("failures") == {word: 1} and world.status()["ready"] == 3)
        await world.process.kill()
        await world.process.start()
        await world.sleep(120)
        assert world.status().get("failures", {}) == {word: 1}

    play(story)


def test_a_failed_claimed_sandbox_stays_readable_for_its_holder_then_goes(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(1))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 1)
        world.claim("holder")
        world.nodes.end("team", "pool-0", reason="OOMKilled")
        await world.sleep(50)
        assert len(world.pods(holder="holder")) == 1
        await world.until(lambda: not world.pods(holder="holder"), 60)
        await world.until(lambda: world.status().get("failures", {}) == {"OOMKilled": 1}, 10)

    play(story)


def test_a_bad_node_is_avoided(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=4, warm=warm(4))
        await world.until(lambda: world.status().get("ready") == 4)
        world.nodes.lost.add("node-a")
        await world.until(lambda: len(world.pods(ready=True)) == 2, 10)
        await world.until(lambda: len(world.pods(ready=True)) == 4, 400)
        await world.until(lambda: len(world.pods()) == 4, 400)
        assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"node-b"}
        assert world.status().get("failures", {}) == {"NodeLost": 2}
        assert world.condition("Degraded")["reason"] == "NodesQuarantined"
        await world.until(lambda: world.condition("Degraded")["status"] == "False", 1_200)

    play(story)


def test_a_claimed_sandbox_stuck_on_a_lost_node_frees_its_slot(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=1, warm=warm(1))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 1)
        uid = world.claim("holder")
        world.nodes.lost.add(world.pods()[0]["spec"]["nodeName"])
        world.release(uid)
        await world.sleep(50)
        assert [pod["metadata"]["uid"] for pod in world.pods()] == [uid]
        await world.until(lambda: world.status()["ready"] == 1 and world.pods()[0]["metadata"]["uid"] != uid, 60)

    play(story)


def test_an_image_that_cannot_be_pulled_says_so_and_holds_nothing_back(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.nodes.unpullable = {OTHER: "manifest unknown: no such tag"}
        world.create_pool(replicas=6, warm=warm(2) + warm(2, OTHER), startupDeadlineSeconds=60)
        await world.until(lambda: len(world.pods(image=IMAGE, ready=True)) == 2, 30)
        await world.until(lambda: world.condition("Degraded")["reason"] == "ImagePull", 30)
        assert "no such tag" in world.condition("Degraded")["message"]
        assert world.condition("Ready")["status"] == "False"
        await world.until(lambda: world.status().get("failures", {}).get("ImagePull", 0) == 2, 120)
        world.nodes.unpullable = {}
        await world.until(lambda: world.status()["ready"] == 4, 600)

    play(story)


def test_the_column_of_health_names_trouble_that_nobody_waits_for(play: Callable[..., None]) -> None:
    column = next(column for column in ROLLOUT_POOL.columns if column.name == "Health")
    assert column.path == '.status.conditions[?(@.type=="Degraded")].reason'

    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=[])
        await world.until(lambda: "conditions" in world.status())
        assert world.condition("Degraded")["reason"] == "Healthy"
        world.nodes.unpullable = {OTHER: "manifest unknown: no such tag"}
        world.join("holder", [OTHER])
        await world.until(lambda: world.condition("Degraded")["reason"] == "ImagePull", 30)
        world.announce("holder", [])
        await world.until(lambda: world.condition("Ready")["status"] == "True", 30)
        assert len(world.pods(image=OTHER)) == 1
        assert world.condition("Degraded")["reason"] == "ImagePull"

    play(story)


def test_no_room_in_the_cluster_is_named_and_waited_for(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.nodes.capacity = 2
        world.create_pool(replicas=6, warm=warm(6))
        await world.until(lambda: world.status().get("ready") == 4)
        await world.until(lambda: world.condition("Degraded")["reason"] == "Unschedulable", 30)
        await world.sleep(120)
        assert len(world.created_uids()) == 6
        world.nodes.capacity = 10
        await world.until(lambda: world.status()["ready"] == 6)

    play(story)


def test_a_quota_is_quoted_within_seconds_and_left_alone_until_lifted(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.api.lies.pod_quota = 3
        world.create_pool(replicas=8, warm=warm(8))
        await world.until(lambda: bool(world.status()) and world.condition("Degraded")["reason"] == "QuotaExceeded", 5)
        message = world.condition("Degraded")["message"]
        assert "exceeded quota: sandboxes" in message
        assert "limited: pods=3" in message
        before = len(world.api.requests)
        await world.sleep(120)
        posts = [path for method, path in world.api.requests[before:] if method == "POST" and path.endswith("pods")]
        assert len(posts) <= 16
        world.api.lies.pod_quota = None
        await world.until(lambda: world.status()["ready"] == 8, 30)
        assert world.condition("Degraded")["status"] == "False"
        assert world.status().get("failures", {}) == {"QuotaExceeded": 1}

    play(story)


def test_one_forbidden_image_does_not_starve_the_others(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.api.lies.forbidden_images = frozenset({OTHER})
        world.create_pool(replicas=6, warm=warm(1, OTHER) + warm(3))
        await world.until(lambda: len(world.pods(image=IMAGE, ready=True)) == 3, 60)
        assert world.condition("Degraded")["status"] == "True"

    play(story)


@pytest.mark.parametrize(
    ("unpullable", "forbidden", "reason", "words"),
    [
        ("manifest unknown: no such tag", (), "ImagePull", "no such tag"),
        ("dial tcp: no route to host", (), "ImagePull", "no route to host"),
        (None, (IMAGE,), "Forbidden", f"image {IMAGE} is not allowed"),
    ],
    ids=["the-images-fault", "the-nodes-fault", "refused"],
)
def test_what_failed_is_told_between_two_tries_too(
    play: Callable[..., None], unpullable: str | None, forbidden: tuple[str, ...], reason: str, words: str
) -> None:
    async def story(world: Any) -> None:
        world.nodes.unpullable = {} if unpullable is None else {IMAGE: unpullable}
        world.api.lies.forbidden_images = frozenset(forbidden)
        world.create_pool(replicas=2, warm=warm(1), startupDeadlineSeconds=20)
        await world.until(lambda: bool(world.status()) and world.condition("Degraded")["reason"] == reason, 30)
        for _ in range(240):
            await world.sleep(0.5)
            assert world.condition("Degraded")["reason"] == world.condition("Ready")["reason"] == reason
            assert words in world.condition("Degraded")["message"]
        world.nodes.unpullable, world.api.lies.forbidden_images = {}, frozenset()
        await world.until(lambda: world.status()["ready"] == 1, 600)
        assert words not in world.condition("Degraded")["message"]

    play(story)


def test_an_override_that_no_pod_has_is_refused_and_not_left_out(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.api.lies.unknown_fields = frozenset({"volums"})
        world.create_pool(replicas=2, warm=warm(1), template={"podOverrides": {"volums": []}})
        await world.until(lambda: bool(world.status()) and world.condition("Degraded")["reason"] == "Invalid", 10)
        assert 'unknown field "spec.volums"' in world.condition("Degraded")["message"]
        assert world.pods() == []

    play(story)


def test_an_override_that_cannot_be_merged_is_told(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(1), template={"podOverrides": {"containers": [{"image": "x:1"}]}})
        await world.until(lambda: bool(world.status()), 10)
        assert world.condition("Degraded")["reason"] == "InvalidSpec"
        message = world.condition("Degraded")["message"]
        assert message.startswith("spec.template.podOverrides: containers[0] needs a name")

    play(story)


def test_who_mends_the_template_does_not_wait_out_the_pause(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.api.lies.forbidden_images = frozenset({IMAGE})
        world.create_pool(replicas=2, warm=warm(1))
        await world.sleep(300)
        world.api.lies.forbidden_images = frozenset()
        await world.sleep(5)
        assert world.status()["ready"] == 0
        world.edit_pool(template={"runAsUser": 1000})
        await world.until(lambda: world.status()["ready"] == 1, 10)

    play(story)


@pytest.mark.parametrize("claimed_at", ["garbage", "2026-01-01T00:00:00", "", "-1", "9999-12-31T23:59:59Z"])
def test_whatever_a_holder_writes_for_a_time_the_pool_goes_on(play: Callable[..., None], claimed_at: str) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(1))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 1)
        uid = world.claim("holder")
        world.edit_annotation(uid, ANNOTATION_CLAIMED_AT, claimed_at)
        await world.until(lambda: world.status().get("claimed") == world.status().get("ready") == 1)
        world.release(uid)
        await world.until(lambda: world.status().get("claimed") == 0 and len(world.pods()) == 1)

    play(story)


@pytest.mark.parametrize(
    "demand",
    [
        pytest.param("[" * 100_000, id="nested"),
        pytest.param("{", id="half"),
        pytest.param('{"images": 7}', id="number"),
        pytest.param('{"images": [7, null, ""]}', id="no-names"),
        pytest.param('{"images": ["\\ud800", "a\\nb"]}', id="no-text"),
        pytest.param(json.dumps({"images": ["x" * 1_000_000]}), id="long"),
    ],
)
def test_whatever_a_holder_writes_for_its_demand_the_pool_goes_on(play: Callable[..., None], demand: str) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(1))
        world.join("holder")
        world.announce_text("holder", demand)
        await world.until(lambda: world.status().get("ready") == 1)
        await world.sleep(30)
        assert len(world.created_uids()) == 1

    play(story)


@pytest.mark.parametrize("holder", [None, ""], ids=["takes-out", "empties"])
def test_a_sandbox_whose_holder_somebody_edits_serves_no_more(play: Callable[..., None], holder: str | None) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=2, warm=warm(1))
        world.join("holder")
        await world.until(lambda: world.status().get("ready") == 1)
        uid = world.claim("holder")
        await world.until(lambda: world.status().get("claimed") == world.status().get("ready") == 1)
        world.edit_annotation(uid, ANNOTATION_HOLDER, holder)
        await world.until(lambda: uid not in {pod["metadata"]["uid"] for pod in world.pods()}, 10)
        await world.until(lambda: len(world.pods(holder="", ready=True)) == 1)

    play(story)


def test_somebody_elses_pod_in_a_slot_is_neither_adopted_nor_touched(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        metadata = {"name": "pool-0", "namespace": "team", "annotations": {ANNOTATION_HOLDER: ""}}
        spec = {"containers": [{"name": "sandbox", "image": IMAGE}]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
        stranger = world.api.store.create(PODS, manifest)
        world.create_pool(replicas=3, warm=warm(2))
        await world.until(lambda: world.status().get("ready") == 2)
        await world.sleep(60)
        assert {pod["metadata"]["name"] for pod in world.pods()} == {"pool-0", "pool-1", "pool-2"}
        assert world.pods()[0]["metadata"]["uid"] == stranger["metadata"]["uid"]
        world.delete_pool()
        await world.until(lambda: len(world.pods()) == 1)

    play(story)


def test_killing_the_operator_at_any_moment_makes_no_double(play: Callable[..., None]) -> None:
    async def story(world: Any) -> None:
        world.create_pool(replicas=20, warm=warm(20))
        for _ in range(12):
            await world.sleep(0.13)
            await world.process.kill()
            await world.process.start()
        await world.until(lambda: world.status().get("ready") == 20)
        assert len(world.created_uids()) == 20

    play(story)
