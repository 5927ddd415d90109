"""The kinds of objects that the operator reads and writes, as the API server addresses them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweyard_api.constants import API_VERSION

Manifest = Mapping[str, Any]
"""An object as JSON: apiVersion, kind, metadata, ..."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind and where its objects live."""

    api_version: str
    """`v1` or `group/version`."""
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection (all namespaces if `namespace` is None), an object or its subresource."""
        parts = ["/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"]
        if self.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        return "/".join([*parts, self.plural, *(part for part in (name, subresource) if part is not None)])


PODS = Resource("v1", "Pod", "pods")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
SERVICES = Resource("v1", "Service", "services")
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
PERSISTENT_VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENTS = Resource("v1", "Event", "events")
NODES = Resource("v1", "Node", "nodes", namespaced=False)
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
JOBS = Resource("batch/v1", "Job", "jobs")
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")
STATEFUL_SETS = Resource("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SETS = Resource("apps/v1", "DaemonSet", "daemonsets")
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
POD_DISRUPTION_BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
ENDPOINT_SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
WORKLOADS = Resource("kueue.x-k8s.io/v1beta2", "Workload", "workloads")
RESOURCE_FLAVORS = Resource("kueue.x-k8s.io/v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Resource(
    "kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
POD_GROUPS = Resource("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups")
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
TRAINING_RUNS = Resource(API_VERSION, "TrainingRun", "trainingruns")
ROLLOUT_POOLS = Resource(API_VERSION, "RolloutPool", "rolloutpools")
IMAGE_CACHES = Resource(API_VERSION, "ImageCache", "imagecaches")

ALL = (
    *(PODS, CONFIG_MAPS, SERVICES, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS, EVENTS, NODES, LEASES, JOBS),
    *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, NETWORK_POLICIES, ROLE_BINDINGS),
    *(POD_DISRUPTION_BUDGETS, WORKLOADS, RESOURCE_FLAVORS, POD_GROUPS, ENDPOINT_SLICES),
    *(PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES),
    *(TRAINING_RUNS, ROLLOUT_POOLS, IMAGE_CACHES),
)
APPLIED_LATER = (NETWORK_POLICIES, ROLE_BINDINGS)
"""Kinds whose objects are created, and then kept as they should be; others are one or the other."""
_BY_KIND = {(resource.api_version, resource.kind): resource for resource in ALL}


def resource_of(manifest: Manifest) -> Resource:
    """The resource that a manifest belongs to. Raises KeyError for a kind the operator does not handle."""
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]


def name_of(manifest: Manifest) -> str:
    """metadata.name."""
    return str(manifest["metadata"]["name"])


def namespace_of(manifest: Manifest) -> str | None:
    """metadata.namespace; None for objects of the cluster."""
    namespace = manifest["metadata"].get("namespace")
    return None if namespace is None else str(namespace)


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    """metadata.labels, empty if there are none."""
    labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
    return labels


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """metadata.annotations, empty if there are none."""
    annotations: Mapping[str, str] = manifest["metadata"].get("annotations") or {}
    return annotations


def edition_of(live: Manifest) -> str:
    """Changes when anybody changes what we applied: the generation, or the version of kinds that have none."""
    metadata = live["metadata"]
    return f"{metadata['uid']}/{metadata.get('generation') or metadata['resourceVersion']}"


def is_owned_by(manifest: Manifest, owner_uid: str) -> bool:
    """True if an owner reference names this UID; a right name with another UID is somebody else's object."""
    return any(reference.get("uid") == owner_uid for reference in manifest["metadata"].get("ownerReferences") or ())


def owner_reference(owner: Manifest) -> dict[str, Any]:
    """Controller reference by which the garbage collector deletes a child with its owner."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
