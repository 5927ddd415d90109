"""What a cluster with nodes offers beyond bare Kubernetes: DNS, policy rights, volumes."""

import sys
from pathlib import Path
from typing import Any

from .api import Kubectl
from .dns import dns_objects, upstream_resolvers
from .node_config import STRICT_HANDLER
from .paths import ClusterPaths
from .policy import policy_objects
from .processes import ProcessTable
from .registry import Registry
from .spec import ClusterSpec
from .storage import storage_class

PROVISIONER = "provisioner"
HOST_RESOLVERS = Path("/etc/resolv.conf")


def runtime_class() -> dict[str, Any]:
    """Names the nodes' second runtime handler."""
    metadata = {"name": STRICT_HANDLER}
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": STRICT_HANDLER}


def apply_addons(spec: ClusterSpec, registry: Registry, kubectl: Kubectl) -> None:
    """Create or update the objects of DNS, policy, storage and the second runtime."""
    upstream = upstream_resolvers(HOST_RESOLVERS.read_text()) if HOST_RESOLVERS.exists() else []
    image = f"{registry.address}/{registry.coredns_image}"
    dns = dns_objects(image, spec.addresses.dns_service, upstream)
    kubectl.apply([*policy_objects(), storage_class(), runtime_class(), *dns])


def start_provisioner(paths: ClusterPaths, processes: ProcessTable, environment: dict[str, str]) -> None:
    paths.volumes.mkdir(exist_ok=True)
    package_root = str(Path(__file__).parents[1])
    command = [sys.executable, "-m", "sweyard_cluster.provisioner", str(paths.kubeconfig), str(paths.volumes)]
    processes.start(PROVISIONER, command, {**environment, "PYTHONPATH": package_root})
