"""Events for `kubectl describe`: one object per owner, reason and sentence, counted up when it repeats."""

import hashlib
from typing import Any

from sweyard_api.constants import FIELD_MANAGER_OPERATOR
from sweyard_operator.cluster import Cluster
from sweyard_operator.conditions import rfc3339
from sweyard_operator.errors import AlreadyExistsError, ForbiddenError, InvalidError, NotFoundError
from sweyard_operator.plan.plan import Event
from sweyard_operator.resources import EVENTS, Manifest


async def post_event(cluster: Cluster, owner: Manifest, event: Event) -> None:
    """Post `event` about `owner`. Where none is taken, as in a namespace on its way out, the pass goes on: the status
    says the same."""
    manifest = build_event(owner, event, rfc3339(cluster.contact.server_time()))
    try:
        await _post_or_count(cluster, manifest)
    except (ForbiddenError, InvalidError, NotFoundError):
        return


async def _post_or_count(cluster: Cluster, manifest: dict[str, Any]) -> None:
    try:
        await cluster.create(manifest)
    except AlreadyExistsError:
        name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
        known = await cluster.get(EVENTS, namespace, name)
        patch = {"count": int(known.get("count") or 1) + 1, "lastTimestamp": manifest["lastTimestamp"]}
        await cluster.merge_patch(EVENTS, namespace, name, patch)


def build_event(owner: Manifest, event: Event, timestamp: str) -> dict[str, Any]:
    """The core/v1 Event. Its name is a digest, so that a repeated sentence meets its first posting."""
    metadata = owner["metadata"]
    text = f"{metadata['uid']}/{event.type}/{event.reason}/{event.message}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1_024],
        "count": 1,
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "source": {"component": FIELD_MANAGER_OPERATOR},
        "reportingComponent": FIELD_MANAGER_OPERATOR,
    }
