"""A RolloutPool without an operator: what a client's Lease is owned by."""

from pathlib import Path

from sweyard_api.constants import API_VERSION
from sweyard_cluster.testing import TestCluster

CRD = Path(__file__).parents[2] / "crds" / "rolloutpools.yaml"


def make_pool(cluster: TestCluster, namespace: str, name: str) -> None:
    """Install the kind, if need be, and make one."""
    cluster.install_kinds(CRD)
    metadata = {"name": name, "namespace": namespace}
    pool = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": metadata, "spec": {"replicas": 0}}
    cluster.api.call("POST", f"/apis/{API_VERSION}/namespaces/{namespace}/rolloutpools", pool)
