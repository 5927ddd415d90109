"""Sandboxes that somebody holds, of a run or a pool."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes import client

from sweyard_api.constants import ANNOTATION_HOLDER, LABEL_COMPONENT
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError

_MOST_NAMED = 10


def find_held(connection: Connection, pod: str) -> str:
    """The pod's holder. Raises UserError for a pod that is no sandbox, that nobody holds, or that is not there."""
    core = client.CoreV1Api(connection.api_client)
    with told_plainly(f"sandboxes of namespace {connection.namespace} cannot be listed"):
        listed = core.list_namespaced_pod(connection.namespace, label_selector=f"{LABEL_COMPONENT}=sandbox")
    return holder_of(connection.api_client.sanitize_for_serialization(listed)["items"], pod, connection.namespace)


def holder_of(sandboxes: Sequence[Mapping[str, Any]], pod: str, namespace: str) -> str:
    """Pure. Raises UserError."""
    holders = {
        str(found["metadata"]["name"]): str((found["metadata"].get("annotations") or {}).get(ANNOTATION_HOLDER, ""))
        for found in sandboxes
    }
    if holders.get(pod):
        return holders[pod]
    held = [name for name, holder in holders.items() if holder]
    more = f" and {len(held) - _MOST_NAMED} more" if len(held) > _MOST_NAMED else ""
    others = f"held are {', '.join(held[:_MOST_NAMED])}{more}" if held else "no sandbox there is held now"
    if pod in holders:
        raise UserError(f"nobody holds sandbox {namespace}/{pod}, so that nothing is going on in it; {others}")
    raise UserError(f"there is no sandbox {namespace}/{pod}; {others}")
