"""The run's volume."""

from typing import Any

from sweyard_operator.build.run_context import RunContext, owned_metadata
from sweyard_operator.resources import Manifest


def build_claim(run: RunContext) -> Manifest | None:
    """PersistentVolumeClaim of the run; None where the user brings one."""
    storage = run.config.storage
    if storage.claim_name is not None:
        return None
    spec: dict[str, Any] = {
        "accessModes": [storage.access_mode],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": owned_metadata(run, run.name),
        "spec": spec,
    }
