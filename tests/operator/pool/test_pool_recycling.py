"""Released sandboxes: freed once their new container is clean, else deleted, and never in a claim's way."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from sweyard_api.constants import ANNOTATION_HOLDER, ANNOTATION_RECYCLED, ANNOTATION_RELEASE
from sweyard_operator.build.reset_check import DIRTY_EXIT_CODE
from sweyard_operator.resources import PODS

IMAGE = "registry.test/a:1"
WARM = [{"image": IMAGE, "replicas": 1}]
Play = Callable[..., None]


async def claim(world: Any, holder: str = "one") -> str:
    await world.until(lambda: bool(world.pods(holder="", ready=True)))
    uid = world.claim(holder)
    assert uid is not None
    return str(uid)


def annotations(world: Any, uid: str) -> dict[str, str]:
    return next((dict(pod["metadata"]["annotations"]) for pod in world.pods() if pod["metadata"]["uid"] == uid), {})


def is_free_again(world: Any, uid: str, times: int) -> bool:
    found = annotations(world, uid)
    is_free = found.get(ANNOTATION_HOLDER) == "" and ANNOTATION_RELEASE not in found
    return is_free and found.get(ANNOTATION_RECYCLED) == str(times)


async def open_pool(world: Any, **spec: Any) -> None:
    world.create_pool(**{"replicas": 1, "warm": WARM, "recycle": "verified", **spec})
    world.join("one")


def test_a_clean_sandbox_serves_again_and_none_is_created_for_it(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world, maxUses=3)
        uid = await claim(world)
        for use in (1, 2):
            world.recycle(uid)
            await world.until(lambda use=use: is_free_again(world, uid, use))
            assert await claim(world) == uid
        assert world.created_uids() == {uid}
        world.recycle(uid)
        await world.until(lambda: uid not in {pod["metadata"]["uid"] for pod in world.pods()})
        await world.sleep(5)
        assert world.status()["recycled"] == 2
        assert world.status()["discarded"] == {"UsedUp": 1}
        assert not world.status().get("failures")
        assert len(world.created_uids()) == 2

    play(main)


@pytest.mark.parametrize(
    ("dirt", "reason"), [("Files: /etc/hosts: x", "Files"), ("", "Unknown")], ids=["said", "unsaid"]
)
def test_what_is_not_clean_is_deleted(play: Play, dirt: str, reason: str) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        world.recycle(uid, dirt=dirt)
        await world.until(lambda: world.status().get("discarded") == {reason: 1})
        assert not annotations(world, uid)
        assert world.status().get("recycled", 0) == 0
        await world.until(lambda: bool(world.pods(holder="", ready=True)))

    play(main)


def test_a_container_that_was_used_cannot_say_that_it_is_dirty(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        world.recycle(uid, end={"exitCode": DIRTY_EXIT_CODE, "message": "Files: /etc/hosts"})
        await world.until(lambda: is_free_again(world, uid, 1))

    play(main)


def test_a_release_whose_container_goes_on_is_given_up(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        world.mark_released(uid)
        await world.sleep(50)
        assert annotations(world, uid)[ANNOTATION_HOLDER] == "one"
        await world.until(lambda: world.status().get("discarded") == {"ResetDeadline": 1}, 60)

    play(main)


@pytest.mark.parametrize("holder", ["one", ""], ids=["claimed", "free"])
def test_a_restart_that_nobody_asked_for_is_a_failure(play: Play, holder: str) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world) if holder else ""
        await world.until(lambda: bool(world.pods(ready=True)))
        (pod,) = world.pods(ready=True)
        world.nodes.end("team", pod["metadata"]["name"], reason="OOMKilled")
        await world.until(lambda: world.status().get("failures") == {"OOMKilled": 1}, 90)
        assert not uid or not annotations(world, uid)
        assert world.status().get("recycled", 0) == 0

    play(main)


@pytest.mark.parametrize("change", [{"template": {"runAsUser": 7}}, {"recycle": "never"}], ids=["template", "never"])
def test_a_sandbox_of_yesterdays_template_is_not_recycled(play: Play, change: dict[str, Any]) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        world.edit_pool(**change)
        world.recycle(uid)
        await world.until(lambda: world.status().get("discarded") == {"Outdated": 1})

    play(main)


def test_what_a_dead_holder_held_is_deleted_and_not_recycled(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        world.die("one")
        await world.until(lambda: not annotations(world, uid), 200)
        assert world.status().get("recycled", 0) == 0

    play(main)


def test_a_released_sandbox_nobody_wants_leaves_like_a_free_one(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world, unclaimedTTLSeconds=30)
        uid = await claim(world)
        world.edit_pool(warm=[])
        world.recycle(uid)
        await world.until(lambda: not world.pods(), 200)

    play(main)


def test_freeing_tests_what_was_looked_at(play: Play) -> None:
    async def main(world: Any) -> None:
        await open_pool(world)
        uid = await claim(world)
        # Of this seed, so that not the very event is lost for which it would be given up after a minute.
        world.api.lies.randomness = random.Random(3)
        world.api.lies.stale_revisions, world.api.lies.lost_event_rate = 40, 0.3
        world.recycle(uid)
        await world.until(lambda: is_free_again(world, uid, 1), 200)
        patches = [path for method, path in world.api.requests if method == "PATCH" and f"/{PODS.plural}/" in path]
        assert patches

    play(main)
