"""What an admission gives the pods of each pod set: the nodes that their quota lies on, and what its checks add."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_operator.resources import Manifest


@dataclass(frozen=True)
class PodSetChoice:
    """To be merged into the pods of one pod set."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def flavor_names(workload: Manifest | None) -> set[str]:
    """ResourceFlavors that the admission gives."""
    return {name for assignment in _assignments(workload) for name in (assignment.get("flavors") or {}).values()}


def pod_set_choices(workload: Manifest | None, flavors: Mapping[str, Manifest]) -> dict[str, PodSetChoice]:
    """By pod set, of an admission: what its flavors say, and the updates of its checks."""
    return {
        str(assignment["name"]): _merge(
            [
                *(_of_flavor(flavors[name]) for name in (assignment.get("flavors") or {}).values() if name in flavors),
                *(update for update in _updates(workload) if update["name"] == assignment["name"]),
            ]
        )
        for assignment in _assignments(workload)
    }


def _of_flavor(flavor: Manifest) -> Mapping[str, Any]:
    """As an update of the pod set."""
    spec = flavor.get("spec") or {}
    return {"nodeSelector": spec.get("nodeLabels"), "tolerations": spec.get("tolerations")}


def _merge(updates: Sequence[Mapping[str, Any]]) -> PodSetChoice:
    """Of one key with two values, which Kueue forbids, the last counts."""
    tolerations: list[Mapping[str, Any]] = []
    for toleration in (one for update in updates for one in update.get("tolerations") or ()):
        if toleration not in tolerations:
            tolerations.append(toleration)
    return PodSetChoice(
        node_selector=_merge_maps(updates, "nodeSelector"),
        tolerations=tolerations,
        labels=_merge_maps(updates, "labels"),
        annotations=_merge_maps(updates, "annotations"),
    )


def _merge_maps(updates: Iterable[Mapping[str, Any]], name: str) -> dict[str, str]:
    return {key: value for update in updates for key, value in (update.get(name) or {}).items()}


def _assignments(workload: Manifest | None) -> Sequence[Mapping[str, Any]]:
    admission = ((workload or {}).get("status") or {}).get("admission") or {}
    assignments: Sequence[Mapping[str, Any]] = admission.get("podSetAssignments") or ()
    return assignments


def _updates(workload: Manifest | None) -> Iterable[Mapping[str, Any]]:
    checks = ((workload or {}).get("status") or {}).get("admissionChecks") or ()
    return (update for check in checks for update in check.get("podSetUpdates") or ())
