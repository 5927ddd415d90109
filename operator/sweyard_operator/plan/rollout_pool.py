"""What a pool needs next: pure, from what exists alone.

Invariants: pods are created in slots below the cap only, and never beyond the cap in number; a sandbox that a live
holder has claimed is deleted only long after it ended; every deletion of a pod carries its UID and resourceVersion,
so that what was claimed a moment ago is kept; nothing is deleted that is not in `observed.pods`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sweyard_operator.build.pool_network_policy import build_network_policy
from sweyard_operator.build.sandbox_pod import build_sandbox_pod, template_hash
from sweyard_operator.plan.census import take_census
from sweyard_operator.plan.demand import count_demand, merge_demand
from sweyard_operator.plan.image_binding import MAX_REQUIRED, Binding, learn, required_nodes
from sweyard_operator.plan.images_to_start import allowed_images, choose_images
from sweyard_operator.plan.mirrors import mirrored
from sweyard_operator.plan.pacing import room_to_start
from sweyard_operator.plan.plan import Deletion, Patch, Plan
from sweyard_operator.plan.pool_figures import Figures
from sweyard_operator.plan.pool_state import Census, Holder, ObservedPool, PoolPlan
from sweyard_operator.plan.pool_status import plan_events, plan_status
from sweyard_operator.plan.preferred_nodes import MAX_PREFERRED, good_nodes, some_nodes
from sweyard_operator.plan.recycling import free_sandbox, plan_recycling
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.plan.slots import choose_slots
from sweyard_operator.plan.supply import Supply, compare_supply
from sweyard_operator.resources import PODS, Manifest

_ENDED_CLAIM_SECONDS = 60.0
"""A holder has this long to read why its sandbox ended."""
_STUCK_SECONDS = 60.0
_STUCK_ON_LIVE_NODE_SECONDS = 300.0
_LIFETIME_SHARE_IDLE = 0.25
"""A free sandbox older than this share of its lifetime is replaced: who claims it needs the rest."""
_MAX_WRITES = 64
"""Creations, and as many deletions, a pass: so that it takes well under a second, and the next sees what changed."""
_RECHECK_SECONDS = 5.0
_LATER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Removals:
    """Pods to delete, by why."""

    failed: tuple[SandboxPod, ...]
    reaped: tuple[SandboxPod, ...]
    stuck: tuple[SandboxPod, ...]
    surplus: tuple[SandboxPod, ...]
    spent: tuple[SandboxPod, ...]


def plan_rollout_pool(observed: ObservedPool, *, now: datetime) -> PoolPlan:
    """One pass. `now` is the API server's wall clock."""
    spec = observed.spec
    recycling = plan_recycling(observed, _find_outdated(observed, observed.pods, now))
    census = take_census(
        observed.pods,
        now=now,
        startup_deadline_seconds=spec.startup_deadline_seconds,
        discarded=recycling.discarded,
    )
    demands = {holder.name: holder.demand for holder in observed.holders if holder.state == "alive"}
    warm = [(entry.image, entry.replicas) for entry in spec.warm]
    wanted = merge_demand(demands, warm, limit=max(0, spec.replicas - len(census.claimed)))
    supply = compare_supply(wanted, census.free, _find_outdated(observed, census.free, now))
    wishes = choose_images(observed, census, supply)
    within_cap = wishes[: max(0, spec.replicas - census.total)]
    removals = _choose_removals(observed, census, supply, waiting=len(wishes) - len(within_cap))
    room = room_to_start(census, max_starting_per_node=observed.max_starting_per_node)
    create = _build_pods(observed, learn(observed.binding, census.failed), within_cap[: min(room, _MAX_WRITES)])
    delete = _pod_deletions(observed.namespace, removals)
    unserved = _find_unserved(wanted, census)
    figures = Figures(
        wanted=len(wanted),
        demand=count_demand(demands, warm),
        creating=len(create),
        paced=max(0, len(within_cap) - room),
        missing=len(supply.missing),
        removing=len(removals.surplus),
        unserved=unserved,
    )
    status = plan_status(observed, census, figures, now=now)
    is_cut_short = max(len(create), len(delete)) >= _MAX_WRITES
    plan = Plan(
        delete=(*_holder_deletions(observed.holders), *delete[:_MAX_WRITES]),
        patch=_free_reset(observed.namespace, recycling.reset, delete),
        apply=(build_network_policy(observed.owner, spec),),
        create=create,
        create_strictly=bool(spec.template.pod_overrides),
        status=status,
        events=plan_events(observed.old_status, status),
        requeue_after_seconds=0.0 if is_cut_short else _next_look_seconds(observed, census, supply),
    )
    condemned = {pod.uid: (pod, failure) for pod, failure in census.failed if failure is not None}
    return PoolPlan(
        plan,
        condemned=condemned,
        unneeded=frozenset(pod.uid for pod in supply.unneeded),
        serving=frozenset(pod.uid for pod in (*census.free, *census.claimed)),
        ready=frozenset(pod.uid for pod in (*census.free, *census.claimed) if pod.is_ready),
        released=recycling.released,
        discarded=recycling.discarded,
        is_short=bool(allowed_images(observed, supply)),
        in_question=frozenset((*unserved, *observed.held_images)),
    )


def _find_unserved(wanted: Iterable[str], census: Census) -> tuple[str, ...]:
    served = {pod.image for pod in (*census.free, *census.claimed) if pod.is_ready}
    return tuple(image for image in dict.fromkeys(wanted) if image not in served)


def _find_outdated(observed: ObservedPool, free: Iterable[SandboxPod], now: datetime) -> frozenset[str]:
    current = template_hash(observed.spec)
    limit_seconds = observed.spec.max_lifetime_seconds * _LIFETIME_SHARE_IDLE
    return frozenset(
        pod.uid
        for pod in free
        if pod.template_hash != current or (now - pod.created_at).total_seconds() > limit_seconds
    )


def _choose_removals(observed: ObservedPool, census: Census, supply: Supply, *, waiting: int) -> _Removals:
    gone = {holder.name for holder in observed.holders if holder.state == "gone"}
    known = {holder.name for holder in observed.holders}
    failed = tuple(pod for pod, _ in census.failed if pod.is_free or _is_over(pod, census.now, known - gone))
    reaped = tuple(pod for pod in census.claimed if pod.holder in gone)
    stuck = tuple(pod for pod in census.terminating if _is_stuck(pod, observed.lost_nodes, census.now))
    leaving = len(census.terminating) + len(failed) + len(reaped) + len(supply.outdated) + len(census.spent)
    is_over_cap = len(census.claimed) + len(census.free) - len(reaped) - len(supply.outdated) - observed.spec.replicas
    # Places that free themselves anyway need nobody to give way.
    needed = max(is_over_cap, waiting - leaving if observed.refusal is None else 0)
    surplus = _choose_surplus(observed, supply, max(0, needed))
    return _Removals(failed, reaped, stuck, (*supply.outdated, *surplus), census.spent)


def _choose_surplus(observed: ObservedPool, supply: Supply, needed: int) -> tuple[SandboxPod, ...]:
    """Free sandboxes to delete: the longest unneeded first, those past their time, then stand-ins if that is short."""
    idle = observed.unneeded_seconds
    by_need = sorted(supply.unneeded, key=lambda pod: (-idle.get(pod.uid, 0.0), pod.is_ready, pod.slot))
    giving_way, rest = by_need[:needed], by_need[needed:]
    expired = [pod for pod in rest if idle.get(pod.uid, 0.0) >= observed.spec.unclaimed_ttl_seconds]
    num_stand_ins = min(needed - len(giving_way), len(supply.replacing))
    return (*giving_way, *expired, *supply.standing_in[:num_stand_ins])


def _is_over(pod: SandboxPod, now: datetime, alive: set[str]) -> bool:
    """An ended claimed pod may go: its holder is gone, or had time to see why."""
    ended_at = pod.ended_at or pod.created_at
    return pod.holder not in alive or (now - ended_at).total_seconds() > _ENDED_CLAIM_SECONDS


def _is_stuck(pod: SandboxPod, lost_nodes: frozenset[str], now: datetime) -> bool:
    """Terminating for longer than a live kubelet needs."""
    assert pod.deletion_due_at is not None
    overdue_seconds = (now - pod.deletion_due_at).total_seconds()
    limit_seconds = _STUCK_SECONDS if pod.node in lost_nodes else _STUCK_ON_LIVE_NODE_SECONDS
    return overdue_seconds > limit_seconds


def _pod_deletions(namespace: str, removals: _Removals) -> tuple[Deletion, ...]:
    careful = (*removals.failed, *removals.reaped, *removals.spent, *removals.surplus)
    return (
        *(Deletion(PODS, namespace, pod.name, pod.uid, pod.resource_version) for pod in careful),
        # Deletion has been decided before; only the kubelet's word is missing, and it will not come.
        *(Deletion(PODS, namespace, pod.name, pod.uid, grace_period_seconds=0) for pod in removals.stuck),
    )


def _free_reset(namespace: str, reset: Iterable[SandboxPod], delete: Iterable[Deletion]) -> tuple[Patch, ...]:
    leaving = {deletion.uid for deletion in delete}
    return tuple(free_sandbox(namespace, pod) for pod in reset if pod.uid not in leaving)[:_MAX_WRITES]


def _holder_deletions(holders: Iterable[Holder]) -> tuple[Deletion, ...]:
    return tuple(deletion for holder in holders for deletion in holder.deletions)


def _build_pods(observed: ObservedPool, binding: Binding, images: tuple[str, ...]) -> tuple[Manifest, ...]:
    taken = {pod.slot for pod in observed.pods} | observed.blocked_slots
    slots = choose_slots(taken, cap=observed.spec.replicas, count=len(images))
    template = template_hash(observed.spec)
    pull_from = {image: mirrored(image, observed.mirrors) for image in set(images)}
    good = {image: good_nodes(name, observed.reports, observed.avoided_nodes) for image, name in pull_from.items()}
    bound = {image: required_nodes(image, name, observed.reports, binding) for image, name in pull_from.items()}
    return tuple(
        build_sandbox_pod(
            observed.owner,
            observed.spec,
            slot=slot,
            image=image,
            template=template,
            pull_from=pull_from[image],
            avoided_nodes=observed.avoided_nodes,
            preferred_nodes=() if bound[image] else some_nodes(good[image], slot, MAX_PREFERRED),
            required_nodes=some_nodes(bound[image], slot, MAX_REQUIRED),
        )
        for slot, image in zip(slots, images, strict=False)
    )


def _next_look_seconds(observed: ObservedPool, census: Census, supply: Supply) -> float:
    """The nearest moment at which time alone changes something."""
    looks = [_LATER_SECONDS]
    looks += [holder.seconds_left for holder in observed.holders if holder.seconds_left is not None]
    looks += list(observed.held_images.values())
    if observed.refusal is not None:
        looks.append(observed.refusal_hold_seconds)
    if observed.breach is not None:
        looks.append(observed.breach.probe_in_seconds or _RECHECK_SECONDS)
    if census.terminating or census.failed or supply.unneeded or any(not pod.is_ready for pod in census.free):
        looks.append(_RECHECK_SECONDS)
    return max(0.2, min(looks))
