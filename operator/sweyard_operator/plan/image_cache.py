"""ImageCache: observed -> Plan. Pure.

Invariants: each image is assigned to min(copies, nodes) usable nodes; nodes that are gone lose their objects; the
status never outgrows an object (failures are capped).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_agent import AgentHost, build_agent_children, build_assignment
from sweyard_operator.build.cache_pods import build_holding_pods
from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.cache_agent.protocol import Assignment, PullFailure, assignment_name, report_name
from sweyard_operator.conditions import Condition, merge_conditions, moved_conditions
from sweyard_operator.observe.image_cache import LABEL_HOLDS, ObservedCache
from sweyard_operator.plan.image_inputs import placement_inputs, plan_budgets
from sweyard_operator.plan.image_need import order_assignments
from sweyard_operator.plan.image_reports import CacheTotals, add_up, has_ended, reports_of_pods
from sweyard_operator.plan.placement import place
from sweyard_operator.plan.plan import Deletion, Event, Plan
from sweyard_operator.plan.registry_shares import share_pulls
from sweyard_operator.resources import CONFIG_MAPS, PODS, Manifest, Resource, labels_of, name_of, resource_of

_UNWATCHED_DISK = Condition(
    "DiskPressure",
    "Unknown",
    "NotWatched",
    "mode pods knows no bytes and evicts nothing: budgets only weigh where images go, and the kubelets' own collection "
    "of images keeps the disks",
)
_UNHEARD = "NotReported"
"""Reason of what nothing can be said about yet; no event says it."""


def plan_image_cache(
    cache: Manifest, spec: ImageCacheSpec, observed: ObservedCache, *, agent_host: AgentHost, now: datetime
) -> Plan:
    """What to apply, create and delete, and the status to show."""
    copies = len(observed.nodes) if spec.copies == "all" else int(spec.copies)
    is_agent = spec.mode == "agent"
    reports = observed.reports if is_agent else reports_of_pods(observed.pods)
    budgets = plan_budgets(spec, observed)
    images, nodes = placement_inputs(observed, reports, budgets)
    placement = place(images, nodes, copies)
    # Families, not images: of those there may be thousands, and each node is told.
    families = () if spec.copies else tuple(sorted({family_of(image) for image in observed.images}))
    totals = add_up(placement, reports)
    held = {} if is_agent else placement
    pods = [pod for node, images in held.items() for pod in build_holding_pods(cache, spec, node, images)]
    over = [node for node, said in observed.reports.items() if said.used_bytes > budgets.get(node, said.used_bytes)]
    conditions = _conditions(observed, totals, _disk_pressure(totals, over) if is_agent else _UNWATCHED_DISK)
    old = (cache.get("status") or {}).get("conditions") or []
    return Plan(
        delete=tuple(_stale(cache, observed, is_agent, pods)),
        apply=tuple(
            _agent_manifests(cache, spec, observed, placement, budgets, families, agent_host) if is_agent else ()
        ),
        create=() if is_agent else tuple(pods),
        status=_status(
            cache, observed, totals, merge_conditions(old, conditions, generation=_generation(cache), now=now)
        ),
        events=tuple(
            _event(condition) for condition in moved_conditions(old, conditions) if condition.reason != _UNHEARD
        ),
    )


def _agent_manifests(
    cache: Manifest,
    spec: ImageCacheSpec,
    observed: ObservedCache,
    placement: Mapping[str, tuple[str, ...]],
    budgets: Mapping[str, int],
    families: tuple[str, ...],
    agent_host: AgentHost,
) -> list[dict[str, Any]]:
    num_pulls = spec.max_parallel_pulls_per_node
    limit = spec.max_parallel_pulls_per_registry
    ordered = order_assignments(placement, observed.need, observed.told, observed.reports)
    shares = share_pulls(ordered, observed.reports, observed.told, limit=limit, per_node=num_pulls)
    common = Assignment(images=(), max_parallel_pulls=num_pulls, families=families)
    assignments = {
        node: common.model_copy(
            update={
                "images": images,
                "disk_budget_bytes": budgets.get(node),
                "registry_pulls": None if shares is None else shares[node],
            }
        )
        for node, images in ordered.items()
    }
    # Of a thousand nodes a report changes what a few are told: no more is written, nor made into JSON.
    changed = [
        build_assignment(cache, node, wanted)
        for node, wanted in assignments.items()
        if observed.told.get(node) != wanted
    ]
    # Assignments first: an agent finds its work when it starts.
    return [*changed, *build_agent_children(cache, spec, agent_host)]


def _stale(cache: Manifest, observed: ObservedCache, is_agent: bool, wanted_pods: Sequence[Manifest]) -> list[Deletion]:
    """ConfigMaps of nodes that no longer take part, pods that hold something else than is wanted or have ended, and
    all of the mode that was left. The report of a node that may come back stays: it says which images are its agent's
    own."""
    name = name_of(cache)
    nodes, absent = (observed.nodes, observed.absent_nodes) if is_agent else ((), ())
    kept_maps = {assignment_name(name, node) for node in nodes} | {
        report_name(name, node) for node in (*nodes, *absent)
    }
    kept_pods = {name_of(pod) for pod in wanted_pods}
    maps = [_deletion(CONFIG_MAPS, item) for item in observed.config_maps if name_of(item) not in kept_maps]
    agents = [] if is_agent else [_deletion(resource_of(item), item) for item in observed.agents]
    holders = [pod for pod in observed.pods if LABEL_HOLDS in labels_of(pod)]
    return [
        *agents,
        *maps,
        *(_deletion(PODS, pod) for pod in holders if name_of(pod) not in kept_pods or has_ended(pod)),
    ]


def _deletion(resource: Resource, item: Manifest) -> Deletion:
    metadata = item["metadata"]
    return Deletion(resource, metadata["namespace"], metadata["name"], metadata["uid"])


def _status(
    cache: Manifest, observed: ObservedCache, totals: CacheTotals, conditions: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "observedGeneration": _generation(cache),
        "total": len(observed.images),
        "cached": totals.cached,
        "failed": totals.failed,
        "nodes": len(observed.nodes),
        "bytes": totals.num_bytes,
        "failures": [failure.model_dump(by_alias=True) for failure in totals.failures],
        "conditions": conditions,
    }


def _generation(cache: Manifest) -> int:
    return int(cache["metadata"].get("generation", 0))


def _event(condition: Condition) -> Event:
    is_bad = condition.type in ("Degraded", "DiskPressure") and condition.status == "True"
    return Event("Warning" if is_bad else "Normal", condition.reason, condition.message)


def _conditions(observed: ObservedCache, totals: CacheTotals, disk_pressure: Condition) -> list[Condition]:
    ready = _ready(observed, totals)
    waiting = ready.status == "False" and ready.reason == "Pulling"
    return [
        ready,
        Condition("Progressing", "True" if waiting else "False", ready.reason, ready.message),
        _degraded(totals),
        disk_pressure,
    ]


def _ready(observed: ObservedCache, totals: CacheTotals) -> Condition:
    if observed.missing_source is not None:
        message = (
            f"ConfigMap {observed.missing_source} named by imagesFrom does not exist; make it, with a key `images`"
        )
        return Condition("Ready", "False", "SourceMissing", message)
    if observed.empty_source is not None:
        message = (
            f"ConfigMap {observed.empty_source} named by imagesFrom lists no image, one a line, in its key `images`"
        )
        return Condition("Ready", "False", "SourceEmpty", message)
    if not observed.images:
        return Condition("Ready", "True", "NoImages", "no image is asked for yet")
    if observed.images and not observed.nodes:
        message = "no node is Ready, schedulable and matches nodeSelector; `kubectl get nodes --show-labels` shows them"
        return Condition("Ready", "False", "NoNodes", message)
    if observed.images and not totals.total:
        message = f"{len(observed.images)} images stay where sandboxes bring them; none is pulled ahead"
        return Condition("Ready", "True", "OnDemand", message)
    if totals.cached == totals.total:
        message = "1 image is on its nodes" if totals.cached == 1 else f"{totals.cached} images are on their nodes"
        return Condition("Ready", "True", "Cached", message)
    if totals.cached + totals.failed == totals.total:
        message = f"{totals.cached} of {totals.total} images are on their nodes; the others failed: see status.failures"
        return Condition("Ready", "False", "PullsFailed", message)
    silent = f"; no report yet from {', '.join(totals.silent_nodes[:3])}" if totals.silent_nodes else ""
    if silent and observed.agent_warning:
        silent += f", whose agents are not made (`mode: pods` needs no rights on nodes): {observed.agent_warning}"
    first = totals.held_up
    held_up = f"; {first.image} waits on {first.node}: {first.reason}: {first.message}" if first is not None else ""
    message = f"{totals.cached} of {totals.total} images are on their nodes{silent}{held_up}"
    return Condition("Ready", "False", "Pulling", message)


def _degraded(totals: CacheTotals) -> Condition:
    if totals.total and not totals.num_reports:
        return Condition("Degraded", "Unknown", _UNHEARD, "no node has reported what it holds yet")
    if not totals.failures:
        return Condition("Degraded", "False", "AllPullsSucceed", "no pull fails")
    first = totals.failures[0]
    if first.reason == PullFailure.TAG_MOVED:
        message = f"nodes hold different images under one name, first {first.image} on {first.node}: {first.message}"
        return Condition("Degraded", "True", first.reason, message)
    message = (
        f"{totals.failed} images cannot be pulled, first {first.image} on {first.node}: {first.reason}: {first.message}"
    )
    return Condition("Degraded", "True", first.reason, message)


def _disk_pressure(totals: CacheTotals, over: Sequence[str]) -> Condition:
    """`over`: nodes whose images take more than the budget."""
    if not totals.num_reports:
        return Condition("DiskPressure", "Unknown", _UNHEARD, "no node has reported what its disk holds yet")
    full = [f for f in totals.failures if f.reason in (PullFailure.DISK_BUDGET, PullFailure.DISK_FULL)]
    if not full and over:
        message = (
            f"images take more than the budget of {', '.join(sorted(over)[:5])}: what nobody wants there goes, but no "
            "image of other pods; raise diskBudget, lower copies or name fewer images"
        )
        return Condition("DiskPressure", "True", "OverBudget", message)
    if not full:
        who = "every node that has reported" if totals.silent_nodes else "every node"
        return Condition("DiskPressure", "False", "WithinBudget", f"{who} has room for its images")
    nodes = sorted({failure.node for failure in full})
    message = f"no room for images on {', '.join(nodes[:5])}: raise diskBudget, lower copies or name fewer images"
    return Condition("DiskPressure", "True", full[0].reason, message)
