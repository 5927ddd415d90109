"""The pure parts of the pool's planner, one table each."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_operator.plan.demand import count_demand, merge_demand
from sweyard_operator.plan.failures import find_failure
from sweyard_operator.plan.fault_ledger import FaultLedger
from sweyard_operator.plan.sandbox import Failure, SandboxPod
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.plan.slots import choose_slots, parse_slot, pod_name
from sweyard_operator.plan.supply import Supply, compare_supply

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def seconds_ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("demands", "warm", "limit", "expected"),
    [
        ({}, [], 5, ""),
        ({"a": "xyz"}, [], 5, "xyz"),
        ({"a": "xyz"}, [], 2, "xy"),
        ({"a": "xxxx", "b": "yy"}, [], 5, "xyxyx"),
        ({"b": "yy", "a": "xxxx"}, [], 3, "xyx"),
        ({"a": "x"}, [("w", 3)], 3, "xww"),
        ({}, [("w", 2), ("v", 1)], 9, "wwv"),
        ({"a": "x"}, [("w", 1)], 0, ""),
    ],
)
def test_demand_is_merged_in_turns_up_to_the_limit(
    demands: dict[str, str], warm: list[tuple[str, int]], limit: int, expected: str
) -> None:
    assert merge_demand(demands, warm, limit=limit) == tuple(expected)


demand_maps = st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), max_size=8), max_size=3)
warm_lists = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 4)), max_size=3)


@given(demands=demand_maps, warm=warm_lists, limit=st.integers(0, 40))
def test_merged_demand_is_as_long_as_it_may_be_and_starves_nobody(
    demands: dict[str, list[str]], warm: list[tuple[str, int]], limit: int
) -> None:
    merged = merge_demand(demands, warm, limit=limit)
    assert len(merged) == min(limit, count_demand(demands, warm))
    everything = Counter(image for images in demands.values() for image in images)
    everything.update({image: 0 for image, _ in warm})
    for image, replicas in warm:
        everything[image] += replicas
    assert not Counter(merged) - everything
    # Whoever is served less than another has nothing left to ask for, give or take the last turn.
    if limit >= len(demands):
        assert all(images[0] in merged for images in demands.values() if images)


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        *(("pool-0", 0), ("pool-17", 17)),
        *((name, None) for name in ("pool", "pool-", "pool-x", "pool-01", "pool-a-1", "other-1", "pool--1")),
        *((name, None) for name in ("pool-1-2", "pool-\u0661")),
    ],
)
def test_only_slot_names_are_slots(name: str, slot: int | None) -> None:
    assert parse_slot("pool", name) == slot


@given(taken=st.sets(st.integers(0, 30)), cap=st.integers(0, 30), count=st.integers(0, 40))
def test_slots_are_free_below_the_cap_and_as_many_as_there_are(taken: set[int], cap: int, count: int) -> None:
    slots = choose_slots(taken, cap=cap, count=count)
    assert len(slots) == min(count, len(set(range(cap)) - taken))
    assert set(slots).isdisjoint(taken)
    assert all(slot < cap and parse_slot("p-1", pod_name("p-1", slot)) == slot for slot in slots)


def make_pod(slot: int = 0, **fields: object) -> SandboxPod:
    base = SandboxPod(
        name=f"pool-{slot}",
        uid=f"uid-{slot}",
        resource_version="1",
        slot=slot,
        image="x",
        created_at=seconds_ago(30),
        node="node-a",
    )
    return replace(base, **fields)  # type: ignore[arg-type]


ENDED = {"phase": "Failed"}
OOM = {**ENDED, "terminated_reason": "OOMKilled"}
OLD = {"created_at": seconds_ago(700)}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"is_ready": True, **OLD}, None),
        ({**ENDED, "terminated_reason": "OOMKilled"}, ("OOMKilled", False)),
        ({**ENDED, "terminated_reason": "Error"}, ("Error", False)),
        ({"phase": "Succeeded", "terminated_reason": "Completed"}, ("Error", False)),
        ({**ENDED, "status_reason": "DeadlineExceeded"}, None),
        ({**ENDED, "status_reason": "Evicted", "status_message": "The node was low on resource: x"}, ("Evicted", True)),
        (
            {
                **ENDED,
                "status_reason": "Evicted",
                "status_message": "Pod ephemeral local storage usage exceeds the total limit of containers 64Mi.",
            },
            ("Evicted", False),
        ),
        ({**ENDED, "status_reason": "PreemptionByScheduler"}, ("Evicted", False)),
        ({**ENDED, "status_reason": "DeletionByTaintManager"}, ("NodeLost", True)),
        ({**ENDED, "status_reason": "OutOfcpu"}, ("Unschedulable", True)),
        ({**ENDED, "status_reason": "UnexpectedAdmissionError"}, ("Unschedulable", True)),
        ({**ENDED, "ended_at": seconds_ago(9), "deletion_due_at": seconds_ago(10)}, None),
        ({**ENDED, "ended_at": seconds_ago(11), "deletion_due_at": seconds_ago(10)}, None),
        ({**ENDED, "ended_at": seconds_ago(20), "deletion_due_at": seconds_ago(10)}, ("Error", False)),
        ({**ENDED, "ended_at": seconds_ago(20), "deletion_due_at": seconds_ago(5), "deletion_grace_seconds": 30}, None),
        # The kubelet's last word: when it was done, seconds after the end that the deletion brought.
        ({**ENDED, "ended_at": seconds_ago(12), "deletion_due_at": seconds_ago(9), "deletion_grace_seconds": 0}, None),
        ({**ENDED, "release": "c", "ended_at": seconds_ago(20), "deletion_due_at": seconds_ago(10)}, None),
        ({**OOM, "ended_at": seconds_ago(9), "deletion_due_at": seconds_ago(10)}, ("OOMKilled", False)),
        (OLD, ("StartupDeadline", True)),
        ({**OLD, "unschedulable_message": "0/3 nodes"}, ("Unschedulable", False)),
        ({"unschedulable_message": "0/3 nodes"}, None),
        ({**OLD, "waiting_reason": "ImagePullBackOff", "waiting_message": "not found"}, ("ImagePull", False)),
        ({**OLD, "waiting_reason": "ErrImagePull", "waiting_message": "no space left on device"}, ("ImagePull", True)),
        ({**OLD, "waiting_reason": "CreateContainerConfigError"}, ("Error", False)),
        ({"is_running": True, "are_containers_ready": True, "ready_changed_at": seconds_ago(60)}, ("NodeLost", True)),
        ({"is_running": True, "are_containers_ready": True, "ready_changed_at": seconds_ago(10)}, None),
        ({"is_running": True, "ready_changed_at": seconds_ago(60)}, None),
    ],
)
def test_failures_have_words_and_know_whether_the_node_is_to_blame(
    fields: dict[str, object], expected: tuple[str, bool] | None
) -> None:
    failure = find_failure(make_pod(**fields), now=NOW, startup_deadline_seconds=600)
    found = None if failure is None else (failure.reason, failure.is_node_at_fault)
    assert found == expected


def test_the_kubelets_own_words_are_kept() -> None:
    pod = make_pod(**ENDED, status_reason="Evicted", status_message="The node was low on resource: memory.")
    failure = find_failure(pod, now=NOW, startup_deadline_seconds=600)
    assert failure == Failure("Evicted", "The node was low on resource: memory.", True)


def test_faults_fade_and_repeated_ones_hold_longer() -> None:
    ledger: FaultLedger[str] = FaultLedger()
    ledger.record("a", 0.0)
    assert ledger.at_least(0.9, 1.0) == ("a",)
    assert ledger.at_least(0.9, 300.0) == ()
    assert ledger.score("a", 300.0) == pytest.approx(0.5)
    ledger.record("a", 300.0)
    assert ledger.at_least(1.4, 300.0) == ("a",)
    assert ledger.at_least(0.0, 5_000.0) == ()


def test_tries_of_one_round_count_as_one() -> None:
    ledger: FaultLedger[str] = FaultLedger()
    for _ in range(50):
        ledger.record_round("image", 10.0)
    assert ledger.held_seconds("image", 10.0) == pytest.approx(1.0)
    now, holds = 11.0, []
    for _ in range(12):
        now += ledger.held_seconds("image", now)
        ledger.record_round("image", now)
        holds.append(ledger.held_seconds("image", now))
    assert holds == sorted(holds)
    assert holds[0] > 1.5
    assert max(holds) <= 300.0


def test_a_lease_is_silent_only_while_it_was_heard_unchanged() -> None:
    clock = SilenceClock()
    clock.hear("h", "1", 0.0)
    clock.hear("h", "1", 50.0)
    assert clock.silent_seconds("h", 59.0) == 59.0
    clock.hear("h", "2", 59.0)
    assert clock.silent_seconds("h", 60.0) == 1.0
    clock.hear("h", None, 61.0)
    assert clock.silent_seconds("h", 61.0) == 0.0


def test_an_outage_starts_every_count_anew() -> None:
    clock = SilenceClock()
    clock.hear("h", "1", 0.0)
    clock.hear_outages(0, 50.0)
    assert clock.silent_seconds("h", 50.0) == 50.0
    clock.hear_outages(1, 70.0)
    assert clock.silent_seconds("h", 75.0) == 5.0


def test_supply_matches_wants_with_what_stands_free() -> None:
    free = [make_pod(0, is_ready=True), make_pod(1), make_pod(2, image="y", is_ready=True)]
    supply = compare_supply("xxxz", free, frozenset())
    assert supply.missing == ("x", "z")
    assert [pod.slot for pod in supply.unneeded] == [2]


def test_ready_sandboxes_are_kept_before_starting_ones() -> None:
    free = [make_pod(0), make_pod(1, is_ready=True), make_pod(2, is_ready=True, created_at=seconds_ago(90))]
    assert [pod.slot for pod in compare_supply("x", free, frozenset()).unneeded] == [1, 0]


def outdated(free: list[SandboxPod]) -> frozenset[str]:
    return frozenset(pod.uid for pod in free if pod.template_hash == "old")


def test_stand_ins_stay_until_their_replacements_are_ready() -> None:
    old = [make_pod(slot, template_hash="old", is_ready=True) for slot in range(4)]
    first = compare_supply("xxxx", old, outdated(old))
    assert (first.missing, first.replacing, len(first.standing_in)) == ((), ("x",), 4)
    starting = [*old, make_pod(9)]
    second = compare_supply("xxxx", starting, outdated(starting))
    assert (second.replacing, second.outdated, len(second.standing_in)) == ((), (), 4)
    ready = [*old, make_pod(9, is_ready=True)]
    third = compare_supply("xxxx", ready, outdated(ready))
    assert ([pod.slot for pod in third.outdated], third.replacing) == ([3], ("x",))


def test_outdated_sandboxes_that_nobody_wants_go_at_once() -> None:
    old = [make_pod(slot, template_hash="old", is_ready=True) for slot in range(2)]
    assert len(compare_supply("", old, outdated(old)).outdated) == 2


free_pods = st.lists(
    st.builds(
        make_pod,
        image=st.sampled_from("xyz"),
        is_ready=st.booleans(),
        template_hash=st.sampled_from(("old", "new")),
    ),
    max_size=8,
).map(lambda pods: [replace(pod, slot=slot, uid=str(slot)) for slot, pod in enumerate(pods)])


@given(wanted=st.lists(st.sampled_from("xyz"), max_size=8), free=free_pods)
def test_supply_accounts_for_every_want_and_every_sandbox(wanted: list[str], free: list[SandboxPod]) -> None:
    supply = compare_supply(wanted, free, outdated(free))
    removable = [*supply.unneeded, *supply.outdated]
    kept = [pod for pod in free if pod not in removable]
    # Whatever is kept and made covers every want; nothing is made while something could serve.
    covered = Counter(pod.image for pod in kept) + Counter(supply.missing)
    assert not Counter(wanted) - covered
    for image in set(supply.missing):
        assert sum(pod.image == image for pod in free) + supply.missing.count(image) == wanted.count(image)
    assert len({pod.uid for pod in removable}) == len(removable)
    assert set(supply.standing_in).isdisjoint(removable)
    assert isinstance(supply, Supply)
