"""What is decided without touching the machine: addresses, sizes, command lines, volumes, names."""

import dataclasses
import ipaddress
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_cluster.addresses import MAX_NODES, SLOTS, Addresses, choose_slot
from sweyard_cluster.control_plane import apiserver_command, apiserver_names, controller_manager_command
from sweyard_cluster.dns import corefile, upstream_resolvers
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.paths import Cache, cache_root
from sweyard_cluster.recipes import MODULES
from sweyard_cluster.spec import ClusterRequest, ClusterSpec, check_request, grown, read_spec, write_spec
from sweyard_cluster.storage import CLASS, claims_to_serve, volume_object, volumes_to_remove

ONE_NODE = ClusterSpec(name="demo", slot=3, nodes=1)


def test_networks_of_all_slots_are_disjoint() -> None:
    networks = [ipaddress.ip_network(one) for slot in range(SLOTS) for one in Addresses(slot).networks]
    assert not any(first.overlaps(second) for first, second in itertools.combinations(networks, 2))


def test_ports_of_all_slots_are_distinct() -> None:
    ports = [port for slot in range(SLOTS) for port in Addresses(slot).loopback_ports]
    assert len(set(ports)) == len(ports)


@given(slot=st.integers(0, SLOTS - 1), index=st.integers(1, MAX_NODES))
def test_node_lies_within_its_cluster(slot: int, index: int) -> None:
    addresses = Addresses(slot)
    pods = ipaddress.ip_network(addresses.node_pods(index))
    assert pods.subnet_of(ipaddress.ip_network(addresses.pod_network))  # type: ignore[arg-type]
    assert ipaddress.ip_address(addresses.node(index)) in ipaddress.ip_network(addresses.node_network)
    assert len(addresses.node_link(index)) <= 15


def test_pods_of_nodes_are_disjoint() -> None:
    networks = [ipaddress.ip_network(Addresses(0).node_pods(index)) for index in range(1, MAX_NODES + 1)]
    assert not any(first.overlaps(second) for first, second in itertools.pairwise(networks))


@pytest.mark.parametrize(
    ("taken", "routes", "busy", "slot"),
    [
        pytest.param([], [], [], 0, id="the first"),
        pytest.param([0, 1], [], [], 2, id="not another cluster's"),
        pytest.param([], ["172.29.0.0/24"], [], 1, id="not a network of the host"),
        pytest.param([], ["10.64.0.0/14"], [], 4, id="not inside a network of the host"),
        pytest.param([], [], [23000, 23011], 2, id="not where a port is in use"),
    ],
)
def test_slot_is_free(taken: list[int], routes: list[str], busy: list[int], slot: int) -> None:
    assert choose_slot(taken, routes, lambda port: port not in busy).slot == slot


def test_no_free_slot_is_said() -> None:
    with pytest.raises(ClusterError, match="all 60 cluster slots are in use; take a cluster down"):
        choose_slot(range(SLOTS), [], lambda _: True)


@pytest.mark.parametrize(
    ("name", "nodes", "fake_nodes", "says"),
    [
        pytest.param("Demo", 1, 0, "--name 'Demo' must be", id="capital letter"),
        pytest.param("../x", 1, 0, "--name '../x' must be", id="path"),
        pytest.param("demo", 61, 0, "--nodes 61 must be between 1 and 60", id="too many nodes"),
        pytest.param("demo", 1, -1, "--fake-nodes -1 must not be negative", id="negative"),
    ],
)
def test_impossible_request_is_refused(name: str, nodes: int, fake_nodes: int, says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        check_request(name, ClusterRequest(nodes=nodes, fake_nodes=fake_nodes))


def test_cluster_grows_in_place() -> None:
    assert grown(ONE_NODE, ClusterRequest(nodes=3, fake_nodes=10, audit=True)) == ClusterSpec(
        name="demo", slot=3, nodes=3, fake_nodes=10, audit=True
    )
    assert grown(ONE_NODE, ClusterRequest(nodes=1, kueue=True)) == dataclasses.replace(ONE_NODE, kueue=True)


@pytest.mark.parametrize(
    ("existing", "nodes", "says"),
    [
        pytest.param(ONE_NODE, 0, "exists as a cluster with nodes; take another --name", id="to control plane"),
        pytest.param(ClusterSpec(name="demo", slot=3, nodes=0), 1, "exists as only a control plane", id="to nodes"),
        pytest.param(
            ClusterSpec(name="demo", slot=3, nodes=2), 1, "has more nodes than asked for", id="to fewer nodes"
        ),
    ],
)
def test_change_of_kind_is_refused(existing: ClusterSpec, nodes: int, says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        grown(existing, ClusterRequest(nodes=nodes))


def test_spec_survives_the_disk(tmp_path: Path) -> None:
    assert read_spec(tmp_path / "none.json") is None
    write_spec(tmp_path / "cluster.json", ONE_NODE)
    assert read_spec(tmp_path / "cluster.json") == ONE_NODE


def test_what_a_newer_version_wrote_of_a_cluster_is_left_aside(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    write_spec(path, ONE_NODE)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"colour": "green"}))
    assert read_spec(path) == ONE_NODE


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache/sweyard"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/cache"}, "/cache/sweyard"),
        ({"HOME": "/home/me", "SWEYARD_CACHE": "/big"}, "/big"),
    ],
    ids=["home", "xdg", "explicit"],
)
def test_cache_is_where_it_was_asked_for(environment: dict[str, str], root: str) -> None:
    assert cache_root(environment) == Path(root)


def test_control_plane_alone_stays_on_the_loopback_address() -> None:
    alone = dataclasses.replace(ONE_NODE, nodes=0)
    paths = Cache(Path("/cache")).cluster("demo")
    flags = apiserver_command(Path("/bin/kube-apiserver"), alone, paths)
    assert "--bind-address=127.0.0.1" in flags
    assert "--endpoint-reconciler-type=none" in flags
    assert not any(flag.startswith("--advertise-address") for flag in flags)
    assert f"--advertise-address={ONE_NODE.addresses.host}" in apiserver_command(Path("/x"), ONE_NODE, paths)


def test_simulated_nodes_are_given_time() -> None:
    paths = Cache(Path("/cache")).cluster("demo")
    fake = dataclasses.replace(ONE_NODE, fake_nodes=5)
    assert "--node-monitor-grace-period=3600s" in controller_manager_command(Path("/x"), fake, paths)
    assert not any("grace" in flag for flag in controller_manager_command(Path("/x"), ONE_NODE, paths))


def test_certificate_names_the_service_and_the_bridge() -> None:
    assert {"IP:172.29.3.1", "IP:10.131.0.1", "DNS:kubernetes.default.svc"} <= set(apiserver_names(ONE_NODE))


@pytest.mark.parametrize(
    ("resolv_conf", "servers"),
    [
        ("nameserver 192.0.2.53\nsearch example.test\n", ["192.0.2.53"]),
        ("nameserver 127.0.0.53\n", []),
        ("# none\n", []),
        ("nameserver fe80::1%eth0\nnameserver ::1\n", ["fe80::1%eth0"]),
    ],
    ids=["one", "local stub", "none", "v6"],
)
def test_resolvers_that_pods_can_reach(resolv_conf: str, servers: list[str]) -> None:
    assert upstream_resolvers(resolv_conf) == servers
    assert ("forward . " in corefile(servers)) == bool(servers)


def test_coredns_is_built_with_the_plugins_of_the_corefile_and_no_others() -> None:
    built = re.findall(r'coredns/plugin/(\w+)"', (MODULES / "coredns/coredns/main.go").read_text())
    assert built == sorted(re.findall(r"^    (\w+)", corefile(["192.0.2.1"]), re.MULTILINE))


def claim(name: str, phase: str = "Pending", storage_class: str = CLASS) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "runs", "uid": f"uid-{name}"},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": phase},
    }


def test_each_pending_claim_of_our_class_gets_one_volume() -> None:
    claims = [claim("new"), claim("bound", "Bound"), claim("other", storage_class="fast"), claim("served")]
    volumes = [{"metadata": {"name": "pvc-uid-served"}}]
    wanted = claims_to_serve(claims, volumes)
    assert [one["name"] for one in wanted] == ["pvc-uid-new"]
    made = volume_object(**wanted[0], directory=Path("/volumes"))
    assert made["spec"]["accessModes"] == ["ReadWriteMany"]
    assert made["spec"]["claimRef"]["uid"] == "uid-new"
    assert made["spec"]["hostPath"]["path"] == "/volumes/pvc-uid-new"


def test_volume_goes_when_its_claim_has_gone() -> None:
    def volume(name: str, phase: str, policy: str = "Delete") -> dict[str, Any]:
        spec = {"storageClassName": CLASS, "persistentVolumeReclaimPolicy": policy}
        return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}

    volumes = [volume("released", "Released"), volume("bound", "Bound"), volume("kept", "Released", "Retain")]
    assert volumes_to_remove(volumes) == ["released"]
