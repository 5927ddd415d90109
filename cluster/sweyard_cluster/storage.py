"""Volumes that any number of pods on any node may write: directories, since all nodes share the host's file system."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CLASS = "shared"
PROVISIONER = "sweyard.dev/shared-directory"


def storage_class() -> dict[str, Any]:
    """The default class; its volumes allow every access mode and go with their claim."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
    }


def claims_to_serve(claims: Sequence[Mapping[str, Any]], volumes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Volumes to create: one for each pending claim of our class that has none yet."""
    existing = {volume["metadata"]["name"] for volume in volumes}
    return [
        {"name": name, "claim": claim}
        for claim in claims
        if claim["spec"].get("storageClassName") == CLASS
        and claim["status"].get("phase") == "Pending"
        and "deletionTimestamp" not in claim["metadata"]
        and (name := f"pvc-{claim['metadata']['uid']}") not in existing
    ]


def volumes_to_remove(volumes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of our volumes whose claim is gone."""
    return [
        volume["metadata"]["name"]
        for volume in volumes
        if volume["spec"].get("storageClassName") == CLASS
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and volume["status"].get("phase") == "Released"
    ]


def volume_object(name: str, claim: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    metadata, spec = claim["metadata"], claim["spec"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": reference,
            "hostPath": {"path": str(directory / name), "type": "Directory"},
        },
    }
