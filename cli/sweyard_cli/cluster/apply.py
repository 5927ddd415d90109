"""Server-side apply: of our own kinds and of a data set's ConfigMap."""

from collections.abc import Mapping
from typing import Any

from kubernetes import client

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.kinds import KINDS
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly

FIELD_MANAGER = "sweyard-cli"
_AS_APPLY = {
    "field_manager": FIELD_MANAGER,
    "field_validation": "Strict",
    "force": True,
    "_content_type": "application/apply-patch+yaml",
}


def apply(connection: Connection, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object as the API server has it now. Raises UserError with the server's sentence."""
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    body = {**manifest, "metadata": {**manifest["metadata"], "namespace": connection.namespace}}
    with told_plainly(f"{kind} {connection.namespace}/{name}"):
        if kind == "ConfigMap":
            api = client.CoreV1Api(connection.api_client)
            applied = api.patch_namespaced_config_map(name, connection.namespace, body, **_AS_APPLY)
            return dict(connection.api_client.sanitize_for_serialization(applied))
        plural = next(known.plural for known in KINDS if known.name == kind)
        custom = client.CustomObjectsApi(connection.api_client)
        applied = custom.patch_namespaced_custom_object(
            GROUP, VERSION, connection.namespace, plural, name, body, **_AS_APPLY
        )
    # The client drops the answer to a request that created the object.
    return dict(applied or body)
