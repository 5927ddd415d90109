"""From a pod as the API server writes it to what the pool client reads; and why a pod died. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweyard_api.constants import (
    ANNOTATION_HOLDER,
    ANNOTATION_IMAGE,
    ANNOTATION_RECYCLED,
    CONTAINER_SANDBOX,
    EXIT_CODE_SANDBOX_TERMINATED,
)
from sweyard_sandbox.errors import FailureReason, InfrastructureError, SandboxEndedError, WaitingReason

_STATUS_REASONS = {
    "Evicted": FailureReason.EVICTED,
    "Preempting": FailureReason.EVICTED,
    "NodeLost": FailureReason.NODE_LOST,
    "NodeShutdown": FailureReason.NODE_LOST,
    "Terminated": FailureReason.NODE_LOST,
    "DeletionByTaintManager": FailureReason.NODE_LOST,
    "DeletionByPodGC": FailureReason.NODE_LOST,
    "EvictionByEvictionAPI": FailureReason.EVICTED,
    "PreemptionByScheduler": FailureReason.EVICTED,
    "TerminationByKubelet": FailureReason.EVICTED,
}
_OWN_LIMIT = "exceed"
"""In the kubelet's words for a pod, container or volume beyond its own limit of disk; a node short of some resource is
told in others (kubernetes: pkg/kubelet/eviction/helpers.go)."""
_UNPULLABLE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
}


@dataclass(frozen=True, slots=True)
class SandboxPod:
    """A pod of a pool, as far as a client cares."""

    name: str
    uid: str
    image: str
    holder: str | None
    """None: it is no pod of a pool."""
    is_ready: bool
    is_leaving: bool
    """Being deleted, or ended."""
    waits_for: WaitingReason | None = None
    """Of a pod that is neither Ready nor leaving."""
    waiting_message: str = ""
    """The cluster's own words on it, if there are any."""
    container_id: str = ""
    """Of the container that runs commands."""
    recycled: int = 0
    """How often it was reset and freed for another holder."""
    is_recyclable: bool = False
    """Its container is made anew when it ends."""

    @property
    def is_free(self) -> bool:
        """Can be claimed now."""
        return self.holder == "" and self.is_ready and not self.is_leaving


def parse_pod(pod: Mapping[str, Any]) -> SandboxPod:
    """Keep only what is read."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    is_ready = _condition(status, "Ready").get("status") == "True"
    is_leaving = "deletionTimestamp" in metadata or status.get("phase") in ("Succeeded", "Failed")
    waits_for, message = (None, "") if is_ready or is_leaving else find_waiting_reason(status)
    return SandboxPod(
        name=metadata["name"],
        uid=metadata["uid"],
        image=annotations.get(ANNOTATION_IMAGE) or _container_image(pod),
        holder=annotations.get(ANNOTATION_HOLDER),
        is_ready=is_ready,
        is_leaving=is_leaving,
        waits_for=waits_for,
        waiting_message=message,
        container_id=_container_status(status).get("containerID", ""),
        recycled=int(annotations.get(ANNOTATION_RECYCLED) or 0),
        is_recyclable=(pod.get("spec") or {}).get("restartPolicy") == "Always",
    )


def find_waiting_reason(status: Mapping[str, Any]) -> tuple[WaitingReason, str]:
    """What keeps a pod that lives from being Ready, and the cluster's words on it."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return WaitingReason.UNSCHEDULABLE, scheduled.get("message", "")
    waiting = (_container_status(status).get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _UNPULLABLE:
        return WaitingReason.IMAGE_PULL, message or reason
    if reason == "ContainerCreating" and _condition(status, "PodReadyToStartContainers").get("status") == "True":
        return WaitingReason.PULLING, ""
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return WaitingReason.STARTING, ""
    return WaitingReason.FAILING, f"{reason}: {message}"


def explain_death(pod: Mapping[str, Any] | None, uid: str, container_id: str = "") -> InfrastructureError | None:
    """Why the pod with `uid` is dead, or its container with `container_id` where that is known, with the cluster's own
    words; None if it lives."""
    if pod is None or pod["metadata"]["uid"] != uid:
        return InfrastructureError(FailureReason.DELETED, "the pod no longer exists")
    metadata, status = pod["metadata"], pod.get("status") or {}
    ended = _find_end(_container_status(status), container_id)
    disruption = _condition(status, "DisruptionTarget")
    is_leaving = "deletionTimestamp" in metadata
    if not (is_leaving or ended or status.get("phase") in ("Succeeded", "Failed")):
        return None
    if status.get("reason") == "Evicted" and _OWN_LIMIT in status.get("message", ""):
        return SandboxEndedError(status["message"].strip())
    for said in (status, disruption):
        if (reason := _STATUS_REASONS.get(said.get("reason", ""))) is not None:
            return InfrastructureError(reason, said.get("message") or said["reason"])
    if ended.get("reason") == "OOMKilled":
        return InfrastructureError(FailureReason.OOM_KILLED, "the kernel killed the sandbox's first process for memory")
    if status.get("reason"):
        return InfrastructureError(FailureReason.ERROR, f"{status['reason']}: {status.get('message', '')}")
    if is_leaving:
        return InfrastructureError(FailureReason.DELETED, "the pod is being deleted")
    if _is_to_be_explained(status):
        return None
    if ended.get("exitCode") == EXIT_CODE_SANDBOX_TERMINATED:
        # Process 1 ends by a signal alone, and only of what the kernel lets it hear from its own namespace; whatever
        # else stops a container says so above, or ends it with another code.
        return SandboxEndedError()
    return InfrastructureError(
        FailureReason.ERROR, f"the container ended with code {ended.get('exitCode')} ({ended.get('reason', 'unknown')})"
    )


def _is_to_be_explained(status: Mapping[str, Any]) -> bool:
    """All containers have ended and the pod has not: why, a kubelet that evicts says with the pod's phase alone."""
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    return all("terminated" in (entry.get("state") or {}) for entry in status.get("containerStatuses") or ())


def _container_image(pod: Mapping[str, Any]) -> str:
    images = (entry["image"] for entry in pod["spec"]["containers"] if entry["name"] == CONTAINER_SANDBOX)
    return str(next(images, ""))


def _find_end(container: Mapping[str, Any], container_id: str) -> Mapping[str, Any]:
    """How the container with this ID ended, also if another one has taken its place."""
    ended: Mapping[str, Any] = (container.get("state") or {}).get("terminated") or {}
    if ended or not container_id:
        return ended
    last: Mapping[str, Any] = (container.get("lastState") or {}).get("terminated") or {}
    is_replaced = container.get("containerID", container_id) != container_id
    return last if last.get("containerID") == container_id or is_replaced else {}


def _container_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (entry for entry in status.get("containerStatuses") or () if entry["name"] == CONTAINER_SANDBOX)
    container: Mapping[str, Any] = next(found, {})
    return container


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next((entry for entry in status.get("conditions") or () if entry["type"] == kind), {})
    return found
