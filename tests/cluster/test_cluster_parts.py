"""Parts of a cluster: certificates, images, the files of its nodes, its daemons, and the command that mends it."""

import io
import os
import socket
import subprocess
from pathlib import Path

import pytest

from sweyard_cluster.addresses import Addresses
from sweyard_cluster.arguments import parser
from sweyard_cluster.commands import up_again
from sweyard_cluster.daemons import daemon_names
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.network import nat_table
from sweyard_cluster.node import is_listening
from sweyard_cluster.node_config import NodeFiles
from sweyard_cluster.paths import Cache
from sweyard_cluster.pki import issue, make_authority
from sweyard_cluster.scratch_image import scratch_image
from sweyard_cluster.spec import ClusterRequest, ClusterSpec, grown
from sweyard_cluster.terminal import Progress
from sweyard_cluster.testing import remove_abandoned


def test_what_a_killed_removal_left_of_a_sessions_cluster_is_removed(tmp_path: Path) -> None:
    tool = Tool(Cache(tmp_path), os.environ, Progress(io.StringIO()))
    for name in ("test-gone-1", "mine"):
        tool.cache.cluster(name).logs.mkdir(parents=True)
    remove_abandoned(tool)
    assert [path.name for path in tool.cache.clusters.glob("[!.]*")] == ["mine"]


def test_nothing_inside_the_cluster_is_masqueraded() -> None:
    rules = nat_table(Addresses(2))
    inside = "172.29.2.0/24, 10.66.0.0/16, 10.130.0.0/16"
    assert f"ip saddr {{ {inside} }} ip daddr != {{ {inside} }}" in rules


def test_certificates_are_of_the_authority_and_made_once(tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "node1", "/O=system:nodes/CN=system:node:node1", ["IP:192.0.2.1"])
    certificate = tmp_path / "node1.crt"
    subprocess.run(["openssl", "verify", "-CAfile", tmp_path / "ca.crt", certificate], check=True, capture_output=True)
    first = certificate.read_bytes()
    make_authority(tmp_path)
    issue(tmp_path, "node1", "/CN=other")
    assert certificate.read_bytes() == first


def test_scratch_image_is_reproducible(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    first = scratch_image({"/program": program}, ["/program"])
    os.utime(program, (0, 0))
    assert scratch_image({"/program": program}, ["/program"]).manifest.digest == first.manifest.digest


def test_node_files_name_its_own_state(tmp_path: Path) -> None:
    texts = NodeFiles("node2", 2, Addresses(1), tmp_path / "node2", tmp_path / "pki").texts()
    assert '"subnet": "10.65.8.0/22"' in texts["cni/10-ptp.conflist"]
    assert "cgroupRoot: /swy1/node2" in texts["kubelet.yaml"]
    assert f"{tmp_path}/pki/node2.crt" in texts["kubelet.yaml"]
    assert 'sandbox = "172.29.1.1:5000/pause:1"' in texts["containerd.toml"]
    assert "registries/172.29.1.1:5000/hosts.toml" in texts


def test_files_of_a_running_node_are_not_touched_by_another_up(tmp_path: Path) -> None:
    files = NodeFiles("node1", 1, Addresses(1), tmp_path / "node1", tmp_path / "pki")
    files.write()
    written = {file: (files.state / file).stat().st_mtime_ns for file in files.texts()}
    (files.state / "kubelet.yaml").write_text("half of i")
    files.write()
    touched = {file for file, before in written.items() if (files.state / file).stat().st_mtime_ns != before}
    assert touched == {"kubelet.yaml"}
    assert (files.state / "kubelet.yaml").read_text() == files.texts()["kubelet.yaml"]


@pytest.mark.parametrize(
    ("spec", "among", "not_among"),
    [
        (ClusterSpec(name="c", slot=0, nodes=0), set(), {"kubelet"}),
        (ClusterSpec(name="c", slot=0, nodes=0, fake_nodes=9), {"kwok"}, {"registry"}),
        (ClusterSpec(name="c", slot=0, nodes=0, kueue=True), {"kueue"}, {"kwok"}),
        (
            ClusterSpec(name="c", slot=0, nodes=2),
            {"registry", "provisioner", "node2", "node2-kubelet", "node1-kube-router"},
            {"kwok", "kueue"},
        ),
    ],
    ids=["control plane", "simulated nodes", "with Kueue", "two nodes"],
)
def test_daemons_that_never_started_are_among_those_of_a_cluster(
    spec: ClusterSpec, among: set[str], not_among: set[str]
) -> None:
    names = daemon_names(spec)
    assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", *among} <= set(names)
    assert not not_among & set(names)


@pytest.mark.parametrize(
    "spec",
    [
        ClusterSpec(name="c", slot=0, nodes=0),
        ClusterSpec(name="c", slot=0, nodes=3),
        ClusterSpec(name="c", slot=0, nodes=0, fake_nodes=9),
        ClusterSpec(name="c", slot=0, nodes=0, kueue=True),
    ],
    ids=["control plane", "three nodes", "simulated nodes", "with Kueue"],
)
def test_the_command_that_mends_a_cluster_is_accepted_by_it(spec: ClusterSpec) -> None:
    asked = parser().parse_args(up_again(spec).split()[3:])
    nodes = 0 if asked.control_plane_only else asked.nodes
    assert grown(spec, ClusterRequest(nodes=nodes, fake_nodes=asked.fake_nodes, audit=asked.audit)) == spec


def test_the_socket_that_a_killed_daemon_left_behind_is_not_taken_for_a_daemon(tmp_path: Path) -> None:
    address = str(tmp_path / "daemon.sock")
    assert not is_listening(address)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(address)
        daemon.listen()
        assert is_listening(address)
    assert Path(address).exists()
    assert not is_listening(address)
