"""A cache that never goes back in time, whatever lists and watches tell."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.resources import PODS, Manifest
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.virtual_time import run_in_virtual_time

Story = Callable[[Caches, FakeApiServer, list[tuple[str, str]]], Coroutine[Any, Any, None]]
LABEL = "sweyard.dev/pool"


def pod(name: str, pool: str = "p", namespace: str = "ns") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: pool}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def play(story: Story, *, namespaces: tuple[str, ...] = (), **lies: Any) -> None:
    async def main() -> None:
        api = FakeApiServer(Lies(random.Random(5), **lies))
        clock = asyncio.get_running_loop().time
        caches = Caches(Cluster(api, Contact(clock), randomness=random.Random(0)), namespaces, clock)
        told: list[tuple[str, str]] = []

        def listen(old: Manifest | None, new: Manifest | None) -> None:
            subject = new or old
            assert subject is not None
            kind = "added" if old is None else "deleted" if new is None else "changed"
            told.append((kind, subject["metadata"]["name"]))

        caches.watch(PODS, LABEL, listen)
        running = asyncio.create_task(caches.run())
        await caches.wait_synced()
        await story(caches, api, told)
        running.cancel()

    run_in_virtual_time(main())


def names(caches: Caches, pool: str = "p") -> list[str]:
    return [item["metadata"]["name"] for item in caches.labelled(PODS, "ns", LABEL, pool)]


def test_it_follows_the_server_and_tells_each_change_once() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        item = api.store.create(PODS, pod("a"))
        api.store.create(PODS, pod("b", pool="q"))
        api.touch()
        await asyncio.sleep(1)
        assert (names(caches), names(caches, "q")) == (["a"], ["b"])
        api.store.put(PODS, {**item, "status": {"phase": "Running"}})
        api.store.remove((PODS, "ns", "b"))
        api.touch()
        await asyncio.sleep(1)
        assert (names(caches), names(caches, "q")) == (["a"], [])
        assert told == [("added", "a"), ("added", "b"), ("changed", "a"), ("deleted", "b")]

    play(story)


def test_a_label_that_moves_moves_the_object() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        item = api.store.create(PODS, pod("a"))
        api.touch()
        await asyncio.sleep(1)
        item["metadata"]["labels"] = {LABEL: "q"}
        api.store.put(PODS, item)
        api.touch()
        await asyncio.sleep(1)
        assert (names(caches), names(caches, "q")) == ([], ["a"])

    play(story)


@pytest.mark.parametrize(
    "lie",
    [
        "duplicate_event_rate",
        "swapped_event_rate",
        "lost_event_rate",
        "broken_watch_rate",
        "gone_rate",
        "error_rate",
        "lost_reply_rate",
    ],
)
def test_it_ends_up_with_the_truth_in_spite_of(lie: str) -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        chooser = random.Random(11)
        setattr(api.lies, lie, 0.5)
        for _ in range(150):
            name = f"n{chooser.randrange(12)}"
            known = api.store.get((PODS, "ns", name))
            if known is None:
                api.store.create(PODS, pod(name))
            elif chooser.random() < 0.5:
                api.store.remove((PODS, "ns", name))
            else:
                api.store.put(PODS, {**known, "status": {"phase": str(chooser.random())}})
            api.touch()
            await asyncio.sleep(chooser.random())
        api.lies.stop()
        await asyncio.sleep(700)
        truth = {address[2]: item for address, item in api.store.objects.items()}
        assert names(caches) == sorted(truth)
        for name, item in truth.items():
            assert caches.get(PODS, "ns", name) == item

    play(story)


def test_our_own_write_survives_a_list_that_lags_behind_it() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        for number in range(5):
            api.store.create(PODS, pod(f"old{number}"))
        api.touch()
        await asyncio.sleep(1)
        api.lies.deaf_watches = True
        await asyncio.sleep(1)
        caches.remember(api.store.create(PODS, pod("mine")))
        api.lies.stale_revisions, api.lies.gone_rate, api.lies.deaf_watches = 1, 1.0, False
        await asyncio.sleep(1)
        assert "mine" in names(caches)
        assert ("deleted", "mine") not in told

    play(story)


def test_a_late_reply_does_not_raise_the_dead() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        reply = api.store.create(PODS, pod("a"))
        api.touch()
        await asyncio.sleep(1)
        api.store.remove((PODS, "ns", "a"))
        api.touch()
        await asyncio.sleep(1)
        caches.remember(reply)
        assert names(caches) == []

    play(story)


def test_a_late_reply_does_not_raise_what_a_list_buried() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        api.lies.deaf_watches = True
        reply = api.store.create(PODS, pod("a"))
        api.store.remove((PODS, "ns", "a"))
        await asyncio.sleep(700)
        caches.remember(reply)
        assert names(caches) == []

    play(story)


def test_watched_namespaces_only() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        api.store.create(PODS, pod("a", namespace="ns"))
        api.store.create(PODS, pod("b", namespace="other"))
        api.touch()
        await asyncio.sleep(1)
        assert told == [("added", "a")]
        caches.remember(api.store.create(PODS, pod("c", namespace="other")))
        assert told == [("added", "a")]

    play(story, namespaces=("ns",))


def test_a_deaf_watch_shows_in_its_silence_and_is_replaced() -> None:
    async def story(caches: Caches, api: FakeApiServer, told: list[tuple[str, str]]) -> None:
        await asyncio.sleep(120)
        assert caches.most_silent()[1] <= 65.0
        api.lies.deaf_watches = True
        api.store.create(PODS, pod("a"))
        await asyncio.sleep(10)
        assert names(caches) == []
        await asyncio.sleep(90)
        # The next watch is as deaf, but a list came before it.
        assert names(caches) == ["a"]

    play(story)
