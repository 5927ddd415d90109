"""Clusters with nodes that come, fail, heal and go, by the commands a person types."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.network import command as system
from sweyard_cluster.paths import ClusterPaths
from sweyard_cluster.processes import PROC, ProcessRecord, identify, only_child
from sweyard_cluster.slots import no_new_clusters
from sweyard_cluster.spec import ClusterSpec

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

Command = Callable[..., subprocess.CompletedProcess[str]]
KUBELET_PORT = 10250
CLUSTER_PACKAGE = Path(__file__).parents[2] / "cluster"


@pytest.fixture
def own_name(command: Command) -> Iterator[str]:
    """A name for a cluster that is gone after the test, whatever happens in it."""
    name = f"own-{uuid.uuid4().hex[:6]}"
    yield name
    command("down", "--name", name)


def namespaces_of(pid: int) -> set[str]:
    return {os.readlink(PROC / str(pid) / "ns" / kind) for kind in ("net", "mnt", "pid", "uts", "ipc")}


def processes_inside(namespaces: set[str]) -> list[ProcessRecord]:
    """Those that are in all of them."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if namespaces <= namespaces_of(int(entry.name)) and (record := identify(int(entry.name))):
                    found.append(record)
    return found


def traces_on_host(tool: Tool, paths: ClusterPaths, spec: ClusterSpec) -> dict[str, list[str]]:
    """Whatever on the machine bears the cluster's names or addresses, by kind."""
    addresses = spec.addresses
    prefixes = [addresses.bridge, *(network.rpartition(".0/")[0] for network in addresses.networks)]
    prefixes = [prefix.removesuffix(".0") + "." if "." in prefix else prefix for prefix in prefixes]

    def lines_of(text: str) -> list[str]:
        words = [*prefixes, str(paths.root)]
        return [line for line in text.splitlines() if any(word in line for word in words)]

    cgroups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{addresses.bridge}")]
    found = {
        "links": lines_of(system("ip", "-o", "link")),
        "addresses": lines_of(system("ip", "-o", "address")),
        "routes": lines_of(system("ip", "route", "show", "table", "all")),
        "mounts": lines_of(Path("/proc/self/mountinfo").read_text()),
        "nft": lines_of(system("nft", "list", "ruleset")),
        "iptables": lines_of(system("iptables-save")),
        "ipsets": lines_of(system("ipset", "save")),
        "cgroups": cgroups,
        "processes": [record.executable for record in tool.processes(paths).strays()],
        "files": [str(path) for path in paths.root.parent.glob(f"*{spec.name}*")],
    }
    return {kind: traces for kind, traces in found.items() if traces}


def test_down_leaves_nothing_behind(command: Command, own_name: str, cluster_tool: Tool) -> None:
    command("up", "--name", own_name, "--nodes", "2")
    paths, spec = cluster_tool.cache.cluster(own_name), cluster_tool.spec(own_name)
    processes = cluster_tool.processes(paths)
    first = [only_child(record.pid) for node in spec.node_names if (record := processes.running(node))]
    host_namespaces = namespaces_of(os.getpid())
    of_nodes = [namespaces_of(pid) - host_namespaces for pid in first]
    assert [len(namespaces) for namespaces in of_nodes] == [5, 5]
    inside = [processes_inside(namespaces) for namespaces in of_nodes]
    assert all(inside)
    before = traces_on_host(cluster_tool, paths, spec)
    assert {"links", "addresses", "routes", "nft", "cgroups", "processes", "files"} <= before.keys()

    # Else another worker's cluster may have the slot, and with it the addresses, before one has looked.
    with no_new_clusters(cluster_tool.cache):
        command("down", "--name", own_name)
        assert traces_on_host(cluster_tool, paths, spec) == {}
    # Not by their namespaces: the kernel gives the numbers of those that are gone to the next pod of any cluster.
    assert [record for records in inside for record in records if identify(record.pid) == record] == []


def connects(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=3).close()
    except OSError:
        return False
    return True


def test_failed_node_is_noticed_and_heals(command: Command, own_name: str, cluster_tool: Tool) -> None:
    command("up", "--name", own_name)
    kubectl = cluster_tool.kubectl(own_name)
    command("fail", "node", "node1", "--name", own_name)
    processes = cluster_tool.processes(cluster_tool.cache.cluster(own_name))
    assert [name for name in processes.names() if name.startswith("node1")] == []
    kubectl.run("wait", "--for=condition=Ready=Unknown", "node/node1", "--timeout=180s")
    command("heal", "node", "node1", "--name", own_name)
    kubelet = (cluster_tool.spec(own_name).addresses.node(1), KUBELET_PORT)
    assert connects(kubelet)
    command("fail", "node", "node1", "--network", "--name", own_name)
    assert not connects(kubelet)
    command("heal", "node", "node1", "--name", own_name)
    kubectl.run("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
    assert connects(kubelet)
    refused = command("fail", "node", "node9", "--name", own_name, succeed=False)
    assert "'node9' is not a node" in refused.stderr


def test_killed_up_is_repeated(command: Command, own_name: str, cluster_tool: Tool) -> None:
    for seconds in (1.0, 6.0, 9.0):
        started = subprocess.Popen(
            [sys.executable, "-m", "sweyard_cluster", "up", "--name", own_name],
            cwd=CLUSTER_PACKAGE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        time.sleep(seconds)
        with started:
            os.killpg(started.pid, signal.SIGKILL)
    command("up", "--name", own_name)
    nodes = json.loads(cluster_tool.kubectl(own_name).run("get", "nodes", "-o", "json"))["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node1"]
    paths = cluster_tool.cache.cluster(own_name)
    processes = cluster_tool.processes(paths)
    servers = [record for record in processes.strays() if record.executable.endswith("/kubelet")]
    assert len(servers) == 1
    assert identify(servers[0].pid) is not None
