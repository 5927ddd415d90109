"""What becomes of released sandboxes in a pool that recycles: freed once reset and clean, else deleted. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sweyard_api.constants import (
    ANNOTATION_CLAIMED_AT,
    ANNOTATION_HOLDER,
    ANNOTATION_RECYCLED,
    ANNOTATION_RELEASE,
)
from sweyard_api.json_pointer import annotation_path
from sweyard_operator.plan.plan import Patch
from sweyard_operator.plan.pool_state import ObservedPool
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.resources import PODS

RESET_SECONDS = 60.0
"""A sandbox that is not clean by then is given up: a new one would long be there."""


@dataclass(frozen=True, slots=True)
class Recycling:
    """Of the released sandboxes that are neither failed nor terminating."""

    reset: tuple[SandboxPod, ...] = ()
    """Clean: to be freed."""
    released: frozenset[str] = frozenset()
    """IDs of the containers that were released."""
    discarded: Mapping[str, str] = field(default_factory=dict)
    """By UID: why not."""


def plan_recycling(observed: ObservedPool, outdated: frozenset[str]) -> Recycling:
    """`outdated`: UIDs of sandboxes that are to be replaced anyway."""
    released = [pod for pod in observed.pods if pod.release and not pod.is_terminating and not pod.has_ended]
    reasons = {pod.uid: _find_reason(pod, observed, outdated) for pod in released}
    return Recycling(
        reset=tuple(pod for pod in released if pod.is_reset and reasons[pod.uid] is None),
        released=frozenset(pod.release for pod in released),
        discarded={uid: reason for uid, reason in reasons.items() if reason is not None},
    )


def _find_reason(pod: SandboxPod, observed: ObservedPool, outdated: frozenset[str]) -> str | None:
    """Why a released sandbox is not to be used again; a word for metrics."""
    if pod.dirt:
        return pod.dirt.partition(":")[0][:32]
    if pod.uid in outdated or observed.spec.recycle == "never":
        return "Outdated"
    if pod.recycled + 1 >= observed.spec.max_uses:
        return "UsedUp"
    if pod.restarts > pod.recycled + 1:
        return "Restarted"
    if observed.released_seconds.get(pod.release, 0.0) > RESET_SECONDS:
        return "ResetDeadline"
    return None


def free_sandbox(namespace: str, pod: SandboxPod) -> Patch:
    """Nobody's again, if it is still what was looked at: its status too is tested, by the resource version."""
    annotations = {name: annotation_path(name) for name in _ANNOTATIONS}
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.resource_version},
        {"op": "test", "path": annotations[ANNOTATION_RELEASE], "value": pod.release},
        {"op": "remove", "path": annotations[ANNOTATION_RELEASE]},
        {"op": "add", "path": annotations[ANNOTATION_RECYCLED], "value": str(pod.recycled + 1)},
        {"op": "replace", "path": annotations[ANNOTATION_HOLDER], "value": ""},
    ]
    if pod.claimed_at is not None:
        operations.append({"op": "remove", "path": annotations[ANNOTATION_CLAIMED_AT]})
    return Patch(PODS, namespace, pod.name, tuple(operations))


_ANNOTATIONS = (ANNOTATION_RELEASE, ANNOTATION_RECYCLED, ANNOTATION_HOLDER, ANNOTATION_CLAIMED_AT)
