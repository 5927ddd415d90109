"""What a real node does: each test is one promise of `python -m sweyard_cluster up`."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_cluster.errors import ClusterError
from sweyard_cluster.node_config import POD_PIDS_LIMIT
from sweyard_cluster.testing import TestCluster

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(600)]

POLICY_SECONDS = 20
PROBE_FAILED = "command terminated with exit code 1"
"""The probe ran and could not fetch, as opposed to kubectl that could not run it."""


@pytest.fixture
def reaches(cluster: TestCluster, namespace: str) -> Callable[[str, str], bool]:
    """Whether a pod gets an answer from a URL."""

    def get(pod: str, url: str) -> bool:
        try:
            cluster.kubectl("-n", namespace, "exec", pod, "--", "/probe", "get", url)
        except ClusterError as error:
            if PROBE_FAILED not in str(error):
                raise
            return False
        return True

    return get


def until(condition: Callable[[], bool], seconds: float = POLICY_SECONDS) -> bool:
    """Whether the condition comes true in time."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.3)
    return False


def address(cluster: TestCluster, namespace: str, pod: str) -> str:
    return cluster.kubectl("-n", namespace, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")


def test_pod_runs_and_takes_commands(cluster: TestCluster, namespace: str, run_pods: Callable[..., None]) -> None:
    run_pods("web")
    assert cluster.kubectl("-n", namespace, "exec", "web", "--", "/probe", "read", "/etc/hostname") == "web\n"


def test_service_is_found_by_name(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], apply: Callable[..., None]
) -> None:
    run_pods("web", "client")
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": spec})
    for name in ("front", f"front.{namespace}.svc.cluster.local"):
        get = ("-n", namespace, "exec", "client", "--", "/probe", "get", f"http://{name}/")
        assert until(lambda get=get: succeeds(cluster, *get))  # type: ignore[misc]
        assert cluster.kubectl(*get) == "web"


def succeeds(cluster: TestCluster, *arguments: str) -> bool:
    try:
        cluster.kubectl(*arguments)
    except ClusterError:
        return False
    return True


def egress_policy(*allowed: dict[str, Any]) -> dict[str, Any]:
    spec = {"podSelector": {"matchLabels": {"app": "guarded"}}, "policyTypes": ["Egress"], "egress": list(allowed)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "guard"},
        "spec": spec,
    }


def test_network_policy_is_enforced(
    cluster: TestCluster,
    namespace: str,
    run_pods: Callable[..., None],
    apply: Callable[..., None],
    reaches: Callable[[str, str], bool],
) -> None:
    run_pods("guarded", "friend", "stranger")
    friend, stranger = (f"http://{address(cluster, namespace, pod)}:8080/" for pod in ("friend", "stranger"))
    host = f"http://{cluster.tool.spec(cluster.name).addresses.registry}/v2/"
    for url in (friend, stranger, host):
        assert reaches("guarded", url)

    apply(egress_policy())
    for url in (friend, stranger, host):
        assert until(lambda url=url: not reaches("guarded", url))  # type: ignore[misc]
    assert reaches("stranger", friend)

    to_friend = {"to": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": 8080}]}
    apply(egress_policy(to_friend))
    assert until(lambda: reaches("guarded", friend))
    assert not reaches("guarded", stranger)
    assert not reaches("guarded", host)

    cluster.kubectl("-n", namespace, "delete", "networkpolicy", "guard")
    assert until(lambda: reaches("guarded", host))


def test_claim_is_shared_by_pods_of_any_user(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], apply: Callable[..., None]
) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    for name, user in (("writer", 1000), ("reader", 2000)):
        run_pods(name, container={"volumeMounts": mounts},
                 spec={"volumes": volumes, "securityContext": {"runAsUser": user}})  # fmt: skip
    cluster.kubectl("-n", namespace, "exec", "writer", "--", "/probe", "write", "/data/note", "from the writer")
    told = cluster.kubectl("-n", namespace, "exec", "reader", "--", "/probe", "read", "/data/note")
    assert told == "from the writer"


def test_directory_of_a_deleted_claim_is_removed(
    cluster: TestCluster, namespace: str, apply: Callable[..., None]
) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "brief"}, "spec": claim})
    bound = ("-n", namespace, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/brief", "--timeout=60s")
    cluster.kubectl(*bound)
    volume = cluster.kubectl("-n", namespace, "get", "pvc", "brief", "-o", "jsonpath={.spec.volumeName}")
    directory = cluster.tool.cache.cluster(cluster.name).volumes / volume
    assert directory.is_dir()
    cluster.kubectl("-n", namespace, "delete", "pvc", "brief")
    assert until(lambda: not directory.exists())
    cluster.kubectl("wait", "--for=delete", f"pv/{volume}", "--timeout=30s")


def test_loaded_archive_runs_as_a_pod(
    cluster: TestCluster,
    namespace: str,
    probe_image: str,
    run_pods: Callable[..., None],
    command: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    archive = tmp_path / "copied.tar"
    copy = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://{probe_image}"]
    subprocess.run([*copy, f"docker-archive:{archive}:localhost/copied:3"], check=True)
    loaded = command("load", "--name", cluster.name, str(archive)).stdout.strip()
    assert loaded == probe_image.replace("probe:1", "copied:3")
    run_pods("copied", container={"image": loaded, "imagePullPolicy": "Always"})


def test_pod_has_a_limit_on_processes(cluster: TestCluster, namespace: str, run_pods: Callable[..., None]) -> None:
    run_pods("many")
    uid = cluster.kubectl("-n", namespace, "get", "pod", "many", "-o", "jsonpath={.metadata.uid}")
    bridge = cluster.tool.spec(cluster.name).addresses.bridge
    limits = list(Path("/sys/fs/cgroup").glob(f"**/{bridge}/node1/**/pod{uid}/pids.max"))
    assert [limit.read_text().strip() for limit in limits] == [str(POD_PIDS_LIMIT)]


def test_the_runtime_of_a_node_is_asked_from_inside(
    cluster: TestCluster, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    entered = command("enter", "--name", cluster.name, "node1", "ctr", "-n", "k8s.io", "version")
    assert "Server:" in entered.stdout
