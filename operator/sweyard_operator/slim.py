"""What the caches keep of an object: all that the operator reads and little else, since 5,000 whole pods are 150 MB."""

import sys
from collections.abc import Iterable
from typing import Any

from sweyard_operator.resources import Manifest

_POD_STATUS = ("phase", "reason", "message")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER = ("name", "ready", "imageID", "containerID", "restartCount", "state", "lastState")


def slim(item: Manifest) -> Manifest:
    """A copy without managedFields, half of an object's bytes; of a Pod and a Node only what any controller reads."""
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    if item.get("kind") == "Pod":
        pod: Manifest = _shared({**_pick(item, ("apiVersion", "kind")), "metadata": metadata, **_slim_pod(item)})
        return pod
    if item.get("kind") == "Node":
        # Up to 50 images with all their names.
        status = {name: value for name, value in (item.get("status") or {}).items() if name != "images"}
        return {**item, "metadata": metadata, "status": status}
    return {**item, "metadata": metadata}


def _slim_pod(pod: Manifest) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if "spec" in pod:
        containers = [_slim_container(container) for container in pod["spec"]["containers"]]
        parts["spec"] = {**_pick(pod["spec"], ("nodeName",)), "containers": containers}
    if "status" in pod:
        status = pod["status"]
        parts["status"] = _pick(status, _POD_STATUS)
        for name, fields in (
            ("conditions", _CONDITION),
            ("initContainerStatuses", _CONTAINER),
            ("containerStatuses", _CONTAINER),
        ):
            if status.get(name):
                parts["status"][name] = [_pick(entry, fields) for entry in status[name]]
    return parts


def _slim_container(container: Manifest) -> dict[str, Any]:
    """Of its limits the extended resources alone, which few have: GPU hours are counted by them."""
    limits = (container.get("resources") or {}).get("limits") or {}
    extended = {name: amount for name, amount in limits.items() if "/" in name}
    kept = _pick(container, ("name", "image"))
    return {**kept, "resources": {"limits": extended}} if extended else kept


def _pick(item: Manifest, names: Iterable[str]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}


def _shared(value: Any) -> Any:
    """Equal strings become one: thousands of pods have the same labels, images, nodes and times."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(key): _shared(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_shared(entry) for entry in value]
    return value
