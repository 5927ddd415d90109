"""Whatever happens, in whatever order, on an API server that lies: the pool's invariants hold and it converges."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sweyard_api.constants import ANNOTATION_HOLDER, ANNOTATION_TEMPLATE_HASH
from sweyard_operator.resources import PODS

IMAGES = ("registry.test/a:1", "registry.test/b:1", "registry.test/c:1")
HOLDERS = ("one", "two", "three")
MAX_CAP = 6

LIES = {
    "throttle_rate": 0.2,
    "error_rate": 0.2,
    "lost_request_rate": 0.2,
    "lost_reply_rate": 0.3,
    "conflict_rate": 0.3,
    "duplicate_event_rate": 0.5,
    "lost_event_rate": 0.3,
    "swapped_event_rate": 0.5,
    "broken_watch_rate": 0.3,
    "gone_rate": 0.5,
}

# Shrinking a story of minutes takes longer than reading it.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_STORIES = settings.default.max_examples // 5
"""Each takes half a second."""

images = st.sampled_from(IMAGES)
holders = st.sampled_from(HOLDERS)
steps = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.05, 90.0)),
    st.tuples(st.just("cap"), st.integers(0, MAX_CAP)),
    st.tuples(st.just("warm"), images, st.integers(0, 4)),
    st.tuples(st.just("template"), st.integers(1, 3)),
    st.tuples(st.just("join"), holders, st.lists(images, max_size=6)),
    st.tuples(st.just("announce"), holders, st.lists(images, max_size=6)),
    st.tuples(st.just("claim"), holders),
    st.tuples(st.just("race"), holders, st.integers(0, 2), st.lists(st.floats(0.0, 0.5), min_size=1, max_size=5)),
    st.tuples(st.just("slow"), st.floats(0.0, 1.0)),
    st.tuples(st.just("release"), holders),
    st.tuples(st.just("recycle"), holders, st.sampled_from((None, "Files: x"))),
    st.tuples(st.just("half_release"), holders),
    st.tuples(st.just("reuse"), st.sampled_from(("never", "verified"))),
    st.tuples(st.just("die"), holders),
    st.tuples(st.just("leave"), holders),
    st.tuples(st.just("fail"), st.integers(0, MAX_CAP), st.sampled_from(("OOMKilled", "Error"))),
    st.tuples(st.just("lie"), st.sampled_from(sorted(LIES))),
    st.tuples(st.just("stale"), st.integers(0, 40)),
    st.tuples(st.just("truth")),
    st.tuples(st.just("down"), st.floats(1.0, 120.0)),
    st.tuples(st.just("deaf"), st.floats(1.0, 120.0)),
    st.tuples(st.just("kill")),
)


class Chaos:
    """Plays steps and keeps the books that the invariants are checked against."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.spec: dict[str, Any] = {"replicas": 4, "warm": [], "startupDeadlineSeconds": 60, "unclaimedTTLSeconds": 30}
        # Renewal by age is a story of its own.
        self.spec["maxLifetimeSeconds"] = 100_000
        self.alive: set[str] = set()
        self.claims: dict[str, str] = {}
        """UID to holder, of claims that their holders have not given up."""

    async def play(self, step: tuple[Any, ...]) -> None:
        await getattr(self, f"do_{step[0]}")(*step[1:])
        self.check()

    def edit(self, **changes: Any) -> None:
        self.spec |= changes
        self.world.edit_pool(**changes)

    async def do_wait(self, seconds: float) -> None:
        for _ in range(10):
            await self.world.sleep(seconds / 10)
            self.check()

    async def do_cap(self, replicas: int) -> None:
        self.edit(replicas=replicas)

    async def do_warm(self, image: str, replicas: int) -> None:
        others = [entry for entry in self.spec["warm"] if entry["image"] != image]
        self.edit(warm=[*others, {"image": image, "replicas": replicas}])

    async def do_template(self, user: int) -> None:
        self.edit(template={"runAsUser": user})

    async def do_join(self, holder: str, demand: list[str]) -> None:
        # A holder's name is a pod's: a dead one does not come back while its Lease is still there.
        if holder not in self.alive and not self.world.exists_lease(holder):
            self.world.join(holder, demand)
            self.alive.add(holder)

    async def do_announce(self, holder: str, demand: list[str]) -> None:
        if holder in self.alive:
            self.world.announce(holder, demand)

    async def do_claim(self, holder: str) -> None:
        if holder in self.alive and (uid := self.world.claim(holder)) is not None:
            assert uid not in self.claims
            self.claims[uid] = holder

    async def do_race(self, holder: str, cap: int, pauses: list[float]) -> None:
        """Claims while the operator is taking free sandboxes away."""
        self.edit(replicas=cap)
        for pause in pauses:
            await self.world.sleep(pause)
            await self.do_claim(holder)
            self.check()

    async def do_slow(self, seconds: float) -> None:
        self.world.api.lies.latency_seconds = seconds

    async def do_release(self, holder: str) -> None:
        if (uid := self.give_up_one(holder)) is not None:
            self.world.release(uid)

    async def do_recycle(self, holder: str, dirt: str | None) -> None:
        """Give back for another use; a sandbox that cannot be recycled is deleted."""
        if (uid := self.give_up_one(holder)) is not None:
            if self.is_recyclable(uid):
                self.world.recycle(uid, dirt=dirt)
            else:
                self.world.release(uid)

    async def do_half_release(self, holder: str) -> None:
        """The holder's container does not end, although it says so."""
        if (uid := self.give_up_one(holder)) is not None and self.is_recyclable(uid):
            self.world.mark_released(uid)
        elif uid is not None:
            self.world.release(uid)

    def give_up_one(self, holder: str) -> str | None:
        mine = [uid for uid, claimer in self.claims.items() if claimer == holder]
        if mine:
            del self.claims[mine[0]]
        return mine[0] if mine else None

    def is_recyclable(self, uid: str) -> bool:
        (pod,) = (pod for pod in self.world.pods() if pod["metadata"]["uid"] == uid)
        return bool(pod["spec"]["restartPolicy"] == "Always")

    async def do_reuse(self, recycle: str) -> None:
        self.edit(recycle=recycle)

    async def do_die(self, holder: str) -> None:
        if holder in self.alive:
            self.forget(holder)
            self.world.die(holder)

    async def do_leave(self, holder: str) -> None:
        if holder in self.alive:
            self.forget(holder)
            self.world.leave(holder)

    def forget(self, holder: str) -> None:
        self.alive.remove(holder)
        self.claims = {uid: claimer for uid, claimer in self.claims.items() if claimer != holder}

    async def do_fail(self, index: int, reason: str) -> None:
        running = [pod for pod in self.world.pods(ready=True) if "deletionTimestamp" not in pod["metadata"]]
        if index < len(running):
            pod = running[index]
            self.claims.pop(pod["metadata"]["uid"], None)
            self.world.nodes.end("team", pod["metadata"]["name"], reason=reason)

    async def do_lie(self, name: str) -> None:
        setattr(self.world.api.lies, name, LIES[name])

    async def do_stale(self, revisions: int) -> None:
        self.world.api.lies.stale_revisions = revisions

    async def do_truth(self) -> None:
        self.world.api.lies.stop()

    async def do_down(self, seconds: float) -> None:
        self.world.api.lies.is_down = True
        await self.do_wait(seconds)
        self.world.api.lies.is_down = False

    async def do_deaf(self, seconds: float) -> None:
        self.world.api.lies.deaf_watches = True
        await self.do_wait(seconds)
        self.world.api.lies.deaf_watches = False

    async def do_kill(self) -> None:
        await self.world.process.kill()
        await self.world.process.start()

    def check(self) -> None:
        """What must hold at every moment."""
        pods = self.world.pods()
        assert len(pods) <= MAX_CAP
        for pod in pods:
            assert int(pod["metadata"]["name"].rpartition("-")[2]) < MAX_CAP
        living = {pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        for uid, holder in self.claims.items():
            assert uid in living, f"the sandbox of {holder}, who is alive, was deleted"
            assert living[uid]["metadata"]["annotations"][ANNOTATION_HOLDER] == holder
        assert self.world.exists_stranger()

    async def converge(self) -> None:
        """Once the lying ends, exactly what is wanted remains."""
        self.world.api.lies.stop()
        self.edit(replicas=MAX_CAP, warm=[{"image": IMAGES[0], "replicas": 2}])
        for holder in sorted(self.alive):
            self.world.announce(holder, [])
        await self.world.sleep(1_000)
        free = self.world.pods(holder="")
        assert len(free) == min(2, MAX_CAP - len(self.claims))
        assert all(pod["spec"]["containers"][0]["image"] == IMAGES[0] for pod in free)
        assert len({pod["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH] for pod in free}) <= 1
        assert {pod["metadata"]["uid"] for pod in self.world.pods()} == {
            *(pod["metadata"]["uid"] for pod in free),
            *self.claims,
        }
        status = self.world.status()
        assert (status["ready"], status["claimed"], status["starting"]) == (len(free), len(self.claims), 0)
        before = len(self.world.created_uids())
        await self.world.sleep(200)
        assert len(self.world.created_uids()) == before, "a settled pool went on creating"


@settings(max_examples=_STORIES, deadline=None, phases=_PHASES, suppress_health_check=list(HealthCheck))
@given(story=st.lists(steps, max_size=25), seed=st.integers(0, 2**16), recycle=st.sampled_from(("never", "verified")))
def test_invariants_hold_and_the_pool_converges(
    play: Callable[..., None], story: list[tuple[Any, ...]], seed: int, recycle: str
) -> None:
    async def main(world: Any) -> None:
        world.api.lies.randomness = random.Random(seed)
        world.create_stranger()
        chaos = Chaos(world)
        chaos.spec["recycle"] = recycle
        world.create_pool(**chaos.spec)
        for step in story:
            await chaos.play(step)
        await chaos.converge()

    play(main)


@pytest.mark.parametrize("lie", sorted(LIES))
def test_no_lie_makes_more_sandboxes_than_are_needed(play: Callable[..., None], lie: str) -> None:
    async def main(world: Any) -> None:
        world.api.lies.randomness = random.Random(7)
        setattr(world.api.lies, lie, LIES[lie])
        world.create_pool(replicas=40, warm=[{"image": IMAGES[0], "replicas": 30}])
        for _ in range(5):
            await world.sleep(0.4)
            await world.process.kill()
            await world.process.start()
        await world.until(lambda: len(world.pods(ready=True)) == 30, 3_000)
        await world.sleep(700)
        assert len(world.created_uids()) == 30
        assert sum(resource == PODS for resource, _, _ in world.api.store.objects) == 30

    play(main)
