"""From plans to calls: order, races that are no failures, and writes that are spared."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweyard_api.constants import LABEL_POOL
from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.execute import Executor
from sweyard_operator.plan.plan import Deletion, Event, Patch, Plan
from sweyard_operator.resources import CONFIG_MAPS, EVENTS, NETWORK_POLICIES, PODS, ROLLOUT_POOLS, Manifest
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.virtual_time import run_in_virtual_time

Story = Callable[[Executor, FakeApiServer, Manifest], Coroutine[Any, Any, None]]


def play(story: Story, **lies: Any) -> None:
    async def main() -> None:
        api = FakeApiServer(Lies(random.Random(0), **lies))
        clock = asyncio.get_running_loop().time
        cluster = Cluster(api, Contact(clock), randomness=random.Random(0))
        caches = Caches(cluster, (), clock)
        for resource in (CONFIG_MAPS, NETWORK_POLICIES):
            caches.watch(resource, LABEL_POOL)
        running = asyncio.create_task(caches.run())
        owner = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "RolloutPool", "spec": {}}
        stored = api.store.create(ROLLOUT_POOLS, {**owner, "metadata": {"name": "pool", "namespace": "ns"}})
        await caches.wait_synced()
        await story(Executor(cluster, caches), api, stored)
        running.cancel()

    run_in_virtual_time(main())


def child(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "labels": {LABEL_POOL: "p"}},
        **rest,
    }


def pod(name: str, image: str = "i:1") -> dict[str, Any]:
    return child("Pod", name, spec={"containers": [{"name": "c", "image": image}]})


def policy(ports: list[int]) -> dict[str, Any]:
    egress = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
    return child("NetworkPolicy", "rules", spec={"egress": egress}) | {"apiVersion": "networking.k8s.io/v1"}


def writes(api: FakeApiServer) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path in api.requests if method != "GET"]


def test_neighbours_of_one_kind_are_applied_at_once_and_kinds_in_order() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        maps = [child("ConfigMap", f"m{number}") for number in range(64)]
        clock = asyncio.get_running_loop().time
        began = clock()
        await executor.execute(Plan(apply=(*maps, child("ServiceAccount", "last"))), owner)
        assert clock() - began < 10.0, "virtual seconds: one after the other would take a minute"
        assert writes(api)[-1] == "PATCH last"
        assert len(writes(api)) == 65

    play(story, latency_seconds=2.0)


def test_applies_come_before_creations() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        plan = Plan(apply=(child("ConfigMap", "rules"),), create=(pod("a"), pod("b")))
        outcome = await executor.execute(plan, owner)
        assert writes(api)[0] == "PATCH rules"
        assert {item["metadata"]["name"] for item in outcome.created} == {"a", "b"}

    play(story)


def test_an_apply_is_spared_while_nothing_changed_and_repeated_when_somebody_did() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        plan = Plan(apply=(child("ConfigMap", "rules", data={"a": "1"}),))
        for _ in range(3):
            await executor.execute(plan, owner)
        assert writes(api) == ["PATCH rules"]
        known = api.store.get((CONFIG_MAPS, "ns", "rules"))
        assert known is not None
        api.store.put(CONFIG_MAPS, {**known, "data": {"a": "tampered"}})
        api.touch()
        await asyncio.sleep(1)
        await executor.execute(plan, owner)
        repaired = api.store.get((CONFIG_MAPS, "ns", "rules"))
        assert repaired is not None
        assert repaired["data"] == {"a": "1"}
        await executor.execute(Plan(apply=(child("ConfigMap", "rules", data={"a": "2"}),)), owner)
        assert writes(api) == ["PATCH rules"] * 3

    play(story)


def test_a_policy_that_was_just_made_is_not_applied_until_somebody_changes_it_or_the_wish() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        wanted = policy(ports=[53])
        (made,) = (await executor.execute(Plan(create=(wanted,)), owner)).created
        of_uid = {"uid": made["metadata"]["uid"]}
        keep = Plan(apply=({**wanted, "metadata": {**wanted["metadata"], **of_uid}},))
        for _ in range(3):
            await executor.execute(keep, owner)
        assert writes(api) == ["POST networkpolicies"]
        api.store.put(NETWORK_POLICIES, {**made, "spec": {}})
        api.touch()
        await asyncio.sleep(1)
        for _ in range(3):
            await executor.execute(keep, owner)
        assert writes(api) == ["POST networkpolicies", "PATCH rules"]
        other = policy(ports=[53, 443])
        await executor.execute(Plan(apply=({**other, "metadata": {**other["metadata"], **of_uid}},)), owner)
        assert writes(api) == ["POST networkpolicies", "PATCH rules", "PATCH rules"]

    play(story)


def test_lost_races_are_outcomes_not_failures() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        there = api.store.create(PODS, pod("there"))
        api.store.create(PODS, pod("taken"))
        uid = there["metadata"]["uid"]
        stale = Deletion(PODS, "ns", "there", uid, "1")
        gone = Deletion(PODS, "ns", "gone", "whoever")
        outcome = await executor.execute(Plan(delete=(stale, gone), create=(pod("taken"),)), owner)
        assert (outcome.kept, outcome.deleted, outcome.existed) == ((stale,), (gone,), ("taken",))
        assert api.store.get((PODS, "ns", "there")) is not None

    play(story)


def test_a_change_that_breaks_a_rule_is_told_and_one_that_came_too_late_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        api.store.create(PODS, pod("there"))
        late = {"op": "test", "path": "/metadata/name", "value": "another"}
        change = {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
        patches = [Patch(PODS, "ns", "there", operations) for operations in ((late, change), (change,))]
        for patch in patches:
            assert (await executor.execute(Plan(patch=(patch,)), owner)).patched == ()

    play(story, broken_rule="metadata: no such key: b")
    (told,) = caplog.messages
    assert told == 'a change was refused: Pod "there" is invalid: metadata: no such key: b'


def test_refusals_carry_the_words_of_quota_and_admission() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        outcome = await executor.execute(Plan(create=(pod("a"), pod("b", "bad:1"))), owner)
        assert [(refusal.name, refusal.reason) for refusal in outcome.refused] == [("b", "Forbidden")]
        api.lies.pod_quota = 1
        outcome = await executor.execute(Plan(create=(pod("c"),)), owner)
        assert outcome.refused[0].reason == "QuotaExceeded"
        assert "limited: pods=1" in outcome.refused[0].message

    play(story, forbidden_images=frozenset({"bad:1"}))


@pytest.mark.parametrize(
    ("refused", "stays"),
    [("DELETE pods", True), ("PATCH pods", True), ("POST configmaps", False), ("POST events", None)],
)
def test_whatever_is_refused_the_rest_is_done_and_the_status_written(refused: str, stays: bool | None) -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        uid = api.store.create(PODS, pod("there"))["metadata"]["uid"]
        change = {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
        plan = Plan(
            delete=(Deletion(PODS, "ns", "there", uid, "0" if refused == "PATCH pods" else None),),
            patch=(Patch(PODS, "ns", "there", (change,)),),
            create=(child("ConfigMap", "m"),),
            events=(Event("Normal", "Seen", "words"),),
            status={"phase": "Going"},
        )
        api.lies.refusing = {refused: (403, "not on Fridays")}
        outcome = await executor.execute(plan, owner)
        told = [(refusal.message, refusal.stays) for refusal in outcome.refused]
        assert told == ([] if stays is None else [("not on Fridays", stays)])
        shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert shown is not None
        assert shown["status"] == {"phase": "Going"}

    play(story)


def test_an_event_that_may_not_be_counted_up_is_no_failure() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        event = Event("Normal", "Seen", "words")
        await executor.execute(Plan(events=(event,)), owner)
        api.lies.refusing = {"PATCH events": (403, "events are made and not changed")}
        await executor.execute(Plan(events=(event,), status={"phase": "Going"}), owner)
        shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert shown is not None
        assert shown["status"] == {"phase": "Going"}

    play(story)


def test_a_kind_that_the_cluster_does_not_serve_is_a_refusal() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        workload = {**child("Workload", "run"), "apiVersion": "kueue.x-k8s.io/v1beta2", "spec": {}}
        outcome = await executor.execute(Plan(create=(workload, pod("a"))), owner)
        (refusal,) = outcome.refused
        assert (refusal.name, refusal.reason) == ("run", "NotServed")
        assert refusal.message == "this cluster knows no Workload of kueue.x-k8s.io/v1beta2"
        assert len(outcome.created) == 1

    play(story, unserved=frozenset({"workloads"}))


def test_a_patch_of_the_status_changes_nothing_else_and_only_what_was_looked_at() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        def patch(version: str) -> Patch:
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            changes = [{"op": "add", "path": f"/{half}", "value": {"a": 1}} for half in ("status", "spec")]
            return Patch(ROLLOUT_POOLS, "ns", "pool", (test, *changes), subresource="status")

        first = patch(owner["metadata"]["resourceVersion"])
        assert (await executor.execute(Plan(patch=(first,)), owner)).patched == (first,)
        shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert shown is not None
        assert (shown["status"], shown["spec"]) == ({"a": 1}, {})
        assert (await executor.execute(Plan(patch=(first,)), owner)).patched == ()

    play(story)


def test_status_is_written_when_it_differs_and_to_this_very_object_only() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        await executor.execute(Plan(status={"ready": 1}), owner)
        shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert shown is not None
        assert shown["status"] == {"ready": 1}
        await executor.execute(Plan(status={"ready": 1}), shown)
        assert writes(api) == ["PATCH status"]
        api.store.remove((ROLLOUT_POOLS, "ns", "pool"))
        successor = {key: value for key, value in owner.items() if key != "metadata"}
        api.store.create(ROLLOUT_POOLS, {**successor, "metadata": {"name": "pool", "namespace": "ns"}})
        await executor.execute(Plan(status={"ready": 2}), owner)
        fresh = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert fresh is not None
        assert "status" not in fresh

    play(story)


def test_a_map_that_becomes_empty_is_left_out_and_that_is_written_once() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        for status in ({"ready": 1, "latencies": {"ready": 5}}, *[{"ready": 0, "latencies": {}}] * 2):
            shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
            assert shown is not None
            await executor.execute(Plan(status=status), shown)
        shown = api.store.get((ROLLOUT_POOLS, "ns", "pool"))
        assert shown is not None
        assert shown["status"] == {"ready": 0}
        assert writes(api) == ["PATCH status"] * 2

    play(story)


def test_a_repeated_event_is_counted_not_multiplied() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        event = Event("Warning", "QuotaExceeded", "no")
        for _ in range(3):
            await executor.execute(Plan(events=(event,)), owner)
        events = [item for address, item in api.store.objects.items() if address[0] == EVENTS]
        assert [item["count"] for item in events] == [3]
        assert events[0]["involvedObject"]["uid"] == owner["metadata"]["uid"]

    play(story)


def test_what_was_written_into_objects_that_are_gone_is_forgotten_and_no_other() -> None:
    async def story(executor: Executor, api: FakeApiServer, owner: Manifest) -> None:
        stays = Plan(apply=(child("ConfigMap", "stays", data={"a": "1"}),))
        await executor.execute(stays, owner)
        for number in range(700):
            await executor.execute(Plan(apply=(child("ConfigMap", f"goes-{number}"),)), owner)
            api.store.remove((CONFIG_MAPS, "ns", f"goes-{number}"))
            await asyncio.sleep(1)
        assert executor.num_remembered < 300
        before = len(writes(api))
        await executor.execute(stays, owner)
        assert len(writes(api)) == before

    play(story)
