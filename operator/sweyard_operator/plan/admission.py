"""What a Workload's status says: whether Kueue has admitted it, on which nodes, or has taken its place away again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sweyard_operator.conditions import rfc3339
from sweyard_operator.plan.plan import Patch
from sweyard_operator.resources import WORKLOADS, Manifest, name_of, namespace_of

_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
"""Evictions after which the place in the queue is taken up at once; after others Kueue decides when."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes that the quota of a pod set lies on."""

    node_selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class QueuedWorkload:
    """What Kueue says of a run."""

    workload: Manifest | None = None
    """Whoever owns it; None while there is none."""
    flavors: Mapping[str, Manifest] = field(default_factory=dict)
    """ResourceFlavors that its admission names."""
    priority: int | None = None
    """Value of the PriorityClass that the trainer names."""


def is_admitted(workload: Manifest | None) -> bool:
    """Whether its pods may run now."""
    return (
        workload is not None
        and "deletionTimestamp" not in workload["metadata"]
        and condition(workload, "Admitted").get("status") == "True"
        and not is_evicted(workload)
    )


def is_evicted(workload: Manifest) -> bool:
    """Whether Kueue wants its pods to end; True until it reserves quota again."""
    return condition(workload, "Evicted").get("status") == "True"


def holds_quota(workload: Manifest) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "True"


def condition(workload: Manifest, kind: str) -> Mapping[str, Any]:
    """One condition, empty if there is none."""
    entries = (workload.get("status") or {}).get("conditions") or ()
    return next((entry for entry in entries if entry["type"] == kind), {})


def flavor_names(workload: Manifest | None) -> set[str]:
    """ResourceFlavors that the admission gives."""
    return {name for assignment in _assignments(workload) for name in (assignment.get("flavors") or {}).values()}


def node_choices(workload: Manifest | None, flavors: Mapping[str, Manifest]) -> dict[str, NodeChoice]:
    """By pod set: the labels and tolerations of its flavors."""
    chosen = {}
    for assignment in _assignments(workload):
        specs = [
            flavors[name].get("spec") or {} for name in (assignment.get("flavors") or {}).values() if name in flavors
        ]
        selector = {key: value for spec in specs for key, value in (spec.get("nodeLabels") or {}).items()}
        tolerations: list[Mapping[str, Any]] = []
        for toleration in (one for spec in specs for one in spec.get("tolerations") or ()):
            if toleration not in tolerations:
                tolerations.append(toleration)
        chosen[str(assignment["name"])] = NodeChoice(selector, tolerations)
    return chosen


def _assignments(workload: Manifest | None) -> Sequence[Mapping[str, Any]]:
    admission = ((workload or {}).get("status") or {}).get("admission") or {}
    assignments: Sequence[Mapping[str, Any]] = admission.get("podSetAssignments") or ()
    return assignments


def plan_giving_back(workload: Manifest, now: datetime) -> Patch:
    """Once the pods of an evicted Workload are gone: give back its quota and line up again.

    Kueue leaves that to whoever runs the pods, since nobody else knows when they have ended.
    """
    evicted = condition(workload, "Evicted")
    reason, message = str(evicted.get("reason", "")), str(evicted.get("message", ""))
    at_once = "True" if reason in _REQUEUED_AT_ONCE else "False"
    changed = [
        _entry("QuotaReserved", "False", "Pending", message, workload, now),
        _entry("Admitted", "False", "NoReservation", "The workload has no reservation", workload, now),
        _entry("Requeued", at_once, reason, message, workload, now),
    ]
    if condition(workload, "PodsReady"):
        changed.append(_entry("PodsReady", "False", "WaitForStart", "the pods have ended", workload, now))
    operations: list[dict[str, Any]] = [*_replace_conditions(workload, changed)]
    if "admission" in workload["status"]:
        operations.append({"op": "remove", "path": "/status/admission"})
    return _patch(workload, operations)


def plan_pods_ready(workload: Manifest, now: datetime) -> Patch | None:
    """Tell a Kueue that waits for it (waitForPodsReady) that all pods run; None if it knows."""
    if condition(workload, "PodsReady").get("status") == "True":
        return None
    ready = _entry("PodsReady", "True", "Started", "All pods reached readiness", workload, now)
    return _patch(workload, _replace_conditions(workload, [ready]))


def _patch(workload: Manifest, operations: Sequence[dict[str, Any]]) -> Patch:
    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": workload["metadata"]["resourceVersion"]}
    return Patch(
        WORKLOADS, namespace_of(workload) or "", name_of(workload), (unchanged, *operations), subresource="status"
    )


def _replace_conditions(workload: Manifest, changed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    kinds = {entry["type"] for entry in changed}
    kept = [entry for entry in workload["status"].get("conditions") or () if entry["type"] not in kinds]
    return [{"op": "replace", "path": "/status/conditions", "value": [*kept, *changed]}]


def _entry(kind: str, status: str, reason: str, message: str, workload: Manifest, now: datetime) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason or "Evicted",
        "message": message,
        "observedGeneration": int(workload["metadata"].get("generation", 1)),
        "lastTransitionTime": rfc3339(now),
    }
