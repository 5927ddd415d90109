"""The enforcer of NetworkPolicy: kube-router's firewall, in each node.

A policy takes force up to a second after a pod's first process starts, and connections already open stay open, so a
pod that runs what nobody trusts must start idle and be given work only when its policy is in force.
"""

import http.client
from pathlib import Path
from typing import Any

from .node_config import NodeFiles
from .spec import ClusterSpec

HEALTH_PORT = 20244

READABLE = {
    "": ["pods", "namespaces", "nodes"],
    "networking.k8s.io": ["networkpolicies"],
}


def kube_router_command(binary: Path, node: NodeFiles, spec: ClusterSpec) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={node.state}/kube-router.kubeconfig",
        f"--hostname-override={node.name}",
        f"--service-cluster-ip-range={spec.addresses.service_network}",
        "--iptables-sync-period=1m",
        f"--health-port={HEALTH_PORT}",
    ]


def policy_enforced(node_address: str) -> bool:
    """Whether the enforcer of the node at this address has applied all policies and keeps up."""
    connection = http.client.HTTPConnection(node_address, HEALTH_PORT, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def policy_objects() -> list[dict[str, Any]]:
    """Read access for the enforcer's certificate."""
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["get", "list", "watch"]}
             for group, names in READABLE.items()]  # fmt: skip
    rbac = "rbac.authorization.k8s.io"
    named = {"name": "sweyard:kube-router"}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": named, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "sweyard:kube-router"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "sweyard:kube-router"}],
        },
    ]
