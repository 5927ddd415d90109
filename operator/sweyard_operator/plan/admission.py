"""What a Workload's status says: whether Kueue has admitted it, what it waits for, or that its place was taken away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sweyard_operator.conditions import find_condition, rfc3339
from sweyard_operator.plan.plan import Patch
from sweyard_operator.plan.queue_priority import QueuePriority
from sweyard_operator.resources import WORKLOADS, Manifest, name_of, namespace_of

_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
"""Evictions after which the place in the queue is taken up at once; after others Kueue decides when."""


@dataclass(frozen=True)
class QueuedWorkload:
    """What Kueue says of a run."""

    workload: Manifest | None = None
    """Whoever owns it; None while there is none."""
    flavors: Mapping[str, Manifest] = field(default_factory=dict)
    """ResourceFlavors that its admission names."""
    priority: QueuePriority | None = None
    """What a Workload that is yet to be made is to have."""


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


def unready_checks(workload: Manifest) -> list[str]:
    """AdmissionChecks that keep it from being admitted, in their controllers' words."""
    return [
        ": ".join(filter(None, (f"AdmissionCheck {check['name']} is {check['state']}", check.get("message"))))
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check["state"] != "Ready"
    ]


def condition(workload: Manifest, kind: str) -> Mapping[str, Any]:
    """One condition, empty if there is none."""
    return find_condition(workload.get("status"), kind)


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


def plan_pods_ready(workload: Manifest, now: datetime, *, is_ready: bool) -> Patch | None:
    """Tell a Kueue that waits for it (waitForPodsReady) that all pods run, or do not any more; None if it knows."""
    told = condition(workload, "PodsReady")
    if is_ready == (told.get("status") == "True"):
        return None
    if is_ready:
        reason = "Recovered" if told.get("reason") == "WaitForRecovery" else "Started"
        said = _entry("PodsReady", "True", reason, "All pods reached readiness", workload, now)
    else:
        said = _entry("PodsReady", "False", "WaitForRecovery", "the trainer is started again", workload, now)
    return _patch(workload, _replace_conditions(workload, [said]))


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
