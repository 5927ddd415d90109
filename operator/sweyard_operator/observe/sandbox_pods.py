"""From a pod as the API server writes it to what the planner reads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sweyard_api.constants import (
    ANNOTATION_CLAIMED_AT,
    ANNOTATION_HOLDER,
    ANNOTATION_IMAGE,
    ANNOTATION_RECYCLED,
    ANNOTATION_RELEASE,
    ANNOTATION_TEMPLATE_HASH,
    CONTAINER_SANDBOX,
)
from sweyard_operator.build.reset_check import DIRTY_EXIT_CODE
from sweyard_operator.conditions import parse_time
from sweyard_operator.plan.sandbox import GRACE_SECONDS, SandboxPod
from sweyard_operator.plan.slots import parse_slot
from sweyard_operator.resources import Manifest, annotations_of, is_owned_by, name_of

_MAX_WORDS = 200
"""Characters of a termination message."""
_MAX_DIGITS = 9


def parse_pod(pool: str, pool_uid: str, pod: Manifest) -> SandboxPod | None:
    """None for a pod that is not this pool's own: another owner UID, or a name that is no slot."""
    slot = parse_slot(pool, name_of(pod))
    if slot is None or not is_owned_by(pod, pool_uid):
        return None
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations = annotations_of(pod)
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    networked, disruption = conditions.get("PodReadyToStartContainers", {}), conditions.get("DisruptionTarget", {})
    is_disrupted = disruption.get("status") == "True"
    container = _container_status(status)
    state = container.get("state") or {}
    running, waiting, ended = (state.get(name) or {} for name in ("running", "waiting", "terminated"))
    end = ended or (container.get("lastState") or {}).get("terminated") or {}
    release, is_ready = annotations.get(ANNOTATION_RELEASE, ""), ready.get("status") == "True"
    restarts, recycled = int(container.get("restartCount") or 0), _count(annotations.get(ANNOTATION_RECYCLED, ""))
    holder, claimed_at = annotations.get(ANNOTATION_HOLDER), annotations.get(ANNOTATION_CLAIMED_AT)
    is_new = bool(release) and container.get("containerID", release) != release and restarts == recycled + 1
    return SandboxPod(
        name=name_of(pod),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        slot=slot,
        image=annotations.get(ANNOTATION_IMAGE) or container_image(pod),
        created_at=parse_time(metadata["creationTimestamp"]),
        template_hash=annotations.get(ANNOTATION_TEMPLATE_HASH, ""),
        holder=holder or "",
        is_spoilt=holder is None or (holder == "" and claimed_at is not None),
        node=pod["spec"].get("nodeName"),
        phase=status.get("phase", "Pending"),
        is_ready=is_ready and not release,
        is_running="running" in state,
        are_containers_ready=_are_all_ready(status),
        ready_changed_at=_time(ready.get("lastTransitionTime")),
        deletion_due_at=_time(metadata.get("deletionTimestamp")),
        deletion_grace_seconds=metadata.get("deletionGracePeriodSeconds", GRACE_SECONDS),
        ended_at=_time(end.get("finishedAt") or (ready.get("lastTransitionTime") if ended else None)),
        status_reason=status.get("reason") or (disruption.get("reason", "") if is_disrupted else ""),
        status_message=status.get("message") or (disruption.get("message", "") if is_disrupted else ""),
        terminated_reason=end.get("reason", ""),
        last_words=end.get("message", "")[:_MAX_WORDS],
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        unschedulable_message=scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else "",
        scheduled_at=_time(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None,
        networked_at=_time(networked.get("lastTransitionTime")) if networked.get("status") == "True" else None,
        started_at=_time(running.get("startedAt")),
        claimed_at=_time_by_a_client(claimed_at),
        restarts=restarts,
        recycled=recycled,
        has_stopped=bool(ended) or ("waiting" in state and bool(end)),
        release=release,
        is_reset=is_new and is_ready and "running" in state,
        dirt=_find_dirt(end, release) if release else "",
    )


def _find_dirt(end: Mapping[str, Any], release: str) -> str:
    """What a container that came after the released one has found; one that was used could say anything."""
    is_check = end.get("exitCode") == DIRTY_EXIT_CODE and end.get("containerID", release) != release
    return (end.get("message") or "Unknown") if is_check else ""


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def _container_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = status.get("containerStatuses") or ()
    found: Mapping[str, Any] = next((entry for entry in statuses if entry["name"] == CONTAINER_SANDBOX), {})
    return found


def _are_all_ready(status: Mapping[str, Any]) -> bool:
    statuses = status.get("containerStatuses") or ()
    return bool(statuses) and all(entry.get("ready") for entry in statuses)


def container_image(pod: Manifest) -> str:
    """What its node pulls: the image's name at the mirror, where there is one."""
    images = (entry["image"] for entry in pod["spec"]["containers"] if entry["name"] == CONTAINER_SANDBOX)
    return str(next(images, ""))


def _time_by_a_client(text: str | None) -> datetime | None:
    """What a client wrote as a time need not be one."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
