"""What a cluster with nodes offers beyond bare Kubernetes: DNS, policy rights, volumes."""

import sys
from pathlib import Path

from .api import Kubectl
from .dns import dns_objects, upstream_resolvers
from .paths import ClusterPaths
from .policy import policy_objects
from .processes import ProcessTable
from .registry import Registry
from .spec import ClusterSpec
from .storage import storage_class

PROVISIONER = "provisioner"
HOST_RESOLVERS = Path("/etc/resolv.conf")


def apply_addons(spec: ClusterSpec, registry: Registry, kubectl: Kubectl) -> None:
    """Create or update the objects of DNS, policy and storage."""
    upstream = upstream_resolvers(HOST_RESOLVERS.read_text()) if HOST_RESOLVERS.exists() else []
    image = f"{registry.address}/{registry.coredns_image}"
    kubectl.apply([*policy_objects(), storage_class(), *dns_objects(image, spec.addresses.dns_service, upstream)])


def start_provisioner(paths: ClusterPaths, processes: ProcessTable, environment: dict[str, str]) -> None:
    paths.volumes.mkdir(exist_ok=True)
    package_root = str(Path(__file__).parents[1])
    command = [sys.executable, "-m", "sweyard_cluster.provisioner", str(paths.kubeconfig), str(paths.volumes)]
    processes.start(PROVISIONER, command, {**environment, "PYTHONPATH": package_root})
