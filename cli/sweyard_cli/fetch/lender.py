"""The pod that lends a run's volume: by whom, of what image, and what it waits for. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_api.constants import API_VERSION, GROUP, STORAGE_MOUNT_PATH

LABEL_LENDS = f"{GROUP}/lends-files-of"
"""On the pod: the run. It is none of the run's own, which carry LABEL_RUN and are counted."""
LENDER = "lender"
DEADLINE_SECONDS = 6 * 3600
"""A command that was killed leaves a pod that ends by itself; one that is cut off by it goes on when it is repeated."""
_RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
_LOCKED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of a run are, and who wrote them."""

    namespace: str
    run: str
    uid: str
    claim: str
    sub_path: str | None
    image: str
    """One that has sh and what belongs to it: the trainer's own is on the node already."""
    is_live: bool
    """The run goes on, and so do its files."""
    node: str | None = None
    """Where the volume is in use, if it can be on no other node meanwhile."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Of the trainer's PodSpec what a reader of its files needs, too: its user, and how its image is pulled."""


def lender_pod(place: Place, name: str) -> dict[str, Any]:
    """It reads the claim, as whoever wrote it, and can do nothing else. It goes with the run at the latest."""
    owner = {"apiVersion": API_VERSION, "kind": "TrainingRun", "name": place.run, "uid": place.uid}
    # Of the mount alone: a claim that is read-only is attached as that, which a disk that is written cannot be.
    mount = {"name": "storage", "mountPath": STORAGE_MOUNT_PATH, "readOnly": True}
    spec: dict[str, Any] = {
        **place.pod,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": LENDER,
                "image": place.image,
                "command": ["sleep", str(DEADLINE_SECONDS)],
                "resources": _RESOURCES,
                "securityContext": _LOCKED,
                "volumeMounts": [{**mount, "subPath": place.sub_path} if place.sub_path else mount],
            }
        ],
        "volumes": [{"name": "storage", "persistentVolumeClaim": {"claimName": place.claim}}],
    }
    if place.node:
        spec["affinity"] = _on(place.node)
    metadata = {"name": name, "labels": {LABEL_LENDS: place.run}, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _on(node: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Its container runs."""
    return any("running" in container["state"] for container in _containers(pod))


def ended(pod: Mapping[str, Any]) -> str | None:
    """Why it will never be ready; None while it may."""
    status = pod.get("status") or {}
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    ends = [container["state"].get("terminated") or {} for container in _containers(pod)]
    words = [status.get("message"), status.get("reason"), *(end.get("message") or end.get("reason") for end in ends)]
    return str(next(filter(None, words), "it ended at once"))


def waits_for(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> str:
    """In the words of the scheduler or of the kubelet, whose last warning tells of volumes and images."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason"))
    warnings = [event for event in events if event.get("type") == "Warning"]
    latest = max(warnings, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")), default=None)
    waiting = [container["state"].get("waiting") or {} for container in _containers(pod)]
    told = [(latest or {}).get("message"), *(each.get("message") or each.get("reason") for each in waiting)]
    return str(next(filter(None, told), "nothing is known of it yet"))


def _containers(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()
