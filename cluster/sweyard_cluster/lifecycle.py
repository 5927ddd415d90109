"""From nothing to a cluster and back: `up` brings about what is missing, `down` removes everything."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from . import cgroups, host, host_state, network, prerequisites
from .addons import PROVISIONER, apply_addons, start_provisioner
from .api import Kubectl
from .binaries import Binaries
from .control_plane import ControlPlane
from .errors import ClusterError
from .fake_nodes import FakeNodes
from .kueue import Kueue
from .locking import exclusive
from .node import Node
from .paths import Cache, ClusterPaths
from .processes import ProcessTable
from .registry import Registry
from .slots import clusters, take_slot
from .spec import ClusterRequest, ClusterSpec, check_request, grown, read_spec, write_spec
from .terminal import Progress

READY_TIMEOUT = "120s"


@dataclass(frozen=True)
class Tool:
    """What every command works with: the cache, the environment that children get, the terminal."""

    cache: Cache
    environment: Mapping[str, str]
    progress: Progress

    @property
    def binaries(self) -> Binaries:
        return Binaries(self.cache, self.environment)

    def processes(self, paths: ClusterPaths) -> ProcessTable:
        return ProcessTable(paths.processes, paths.logs, str(paths.root))

    def kubectl(self, name: str) -> Kubectl:
        environment = {**self.environment, "KUBECACHEDIR": str(self.cache.kubectl)}
        return Kubectl(self.binaries.path("kubectl"), self.cache.cluster(name).kubeconfig, environment)

    def spec(self, name: str) -> ClusterSpec:
        """The spec of an existing cluster; raises ClusterError if there is none."""
        if spec := read_spec(self.cache.cluster(name).spec):
            return spec
        raise ClusterError(f"there is no cluster {name!r}; make it with: python -m sweyard_cluster up --name {name}")

    def parts(self, spec: ClusterSpec) -> "Parts":
        paths = self.cache.cluster(spec.name)
        return Parts(spec, paths, self.binaries, self.processes(paths))


@dataclass(frozen=True)
class Parts:
    """The parts of one cluster."""

    spec: ClusterSpec
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    @property
    def control_plane(self) -> ControlPlane:
        return ControlPlane(self.spec, self.paths, self.binaries, self.processes)

    @property
    def registry(self) -> Registry:
        return Registry(self.spec, self.paths, self.binaries, self.processes)

    @property
    def fake_nodes(self) -> FakeNodes:
        return FakeNodes(self.spec, self.paths, self.binaries, self.processes)

    @property
    def kueue(self) -> Kueue:
        return Kueue(self.spec, self.paths, self.binaries, self.processes)

    def node(self, index: int) -> Node:
        return Node(self.spec, index, self.paths, self.binaries, self.processes)

    @property
    def nodes(self) -> list[Node]:
        return [self.node(index) for index in range(1, self.spec.nodes + 1)]


def up(tool: Tool, name: str, wanted: ClusterRequest) -> ClusterSpec:
    """Bring the cluster to what is asked for, from whatever state it is in; 0 nodes is a control plane only.

    Of a new one that cannot be brought up nothing runs any more; its logs stay until `down`.
    """
    check_request(name, wanted)
    if wanted.nodes:
        host.require_root("a cluster with nodes")
    optional = {"node": wanted.nodes, "fake-nodes": wanted.fake_nodes, "kueue": wanted.kueue}
    groups = ["control-plane", *(group for group, is_wanted in optional.items() if is_wanted)]
    packages = host.NODE_PACKAGES if wanted.nodes else {"openssl": "openssl"}
    prerequisites.ensure(packages, tool.progress, go=tool.binaries.environment_to_build(groups))
    tool.binaries.ensure(groups, tool.progress)
    paths = tool.cache.cluster(name)
    with exclusive(paths.lock, lambda: tool.progress.await_turn(f"another command on {name}")):
        existing = read_spec(paths.spec)
        spec = grown(existing, wanted) if existing else None
        spec = spec or take_slot(tool.cache, name, wanted)
        write_spec(paths.spec, spec)
        tool.processes(paths).stop_strays()
        with contextlib.ExitStack() as if_it_fails:
            if existing is None:
                if_it_fails.callback(take_down, tool.parts(spec))
            bring_up(tool, spec)
            if_it_fails.pop_all()
    return spec


def bring_up(tool: Tool, spec: ClusterSpec) -> None:
    parts, kubectl = tool.parts(spec), tool.kubectl(spec.name)
    if spec.nodes:
        host_state.prepare(parts.paths.host_changes)
        network.bridge_up(spec.addresses)
    with tool.progress.step("control plane"):
        parts.control_plane.start()
    if spec.nodes:
        with tool.progress.step("registry"):
            parts.registry.start()
            apply_addons(spec, parts.registry, kubectl)
            start_provisioner(parts.paths, parts.processes, dict(tool.environment))
        with tool.progress.step(f"nodes {', '.join(spec.node_names)}" if spec.nodes < 6 else f"{spec.nodes} nodes"):
            start_nodes(parts, kubectl)
        with tool.progress.step("cluster DNS"):
            kubectl.run("-n", "kube-system", "rollout", "status", "deployment/coredns", f"--timeout={READY_TIMEOUT}")
    if spec.fake_nodes:
        with tool.progress.step(f"{spec.fake_nodes} simulated nodes"):
            parts.fake_nodes.start(kubectl)
    if spec.kueue:
        with tool.progress.step("Kueue"):
            parts.kueue.start(kubectl)


def start_nodes(parts: Parts, kubectl: Kubectl) -> None:
    """Start nodes together, as many at a time as there are cores, and wait until all are Ready."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(Node.start, parts.nodes))
        list(pool.map(Node.start_policy, parts.nodes))
    names = [f"node/{name}" for name in parts.spec.node_names]
    kubectl.run("wait", "--for=condition=Ready", *names, f"--timeout={READY_TIMEOUT}")


def down(tool: Tool, name: str) -> bool:
    """Remove the cluster and all it made; False if there was none."""
    paths = tool.cache.cluster(name)
    if not paths.root.exists():
        return False
    with exclusive(paths.lock, lambda: tool.progress.await_turn(f"another command on {name}")):
        spec = read_spec(paths.spec)
        if spec and spec.nodes:
            host.require_root("taking down a cluster with nodes")
        with tool.progress.step(f"taking down {name}"):
            if spec:
                take_down(tool.parts(spec))
            tool.processes(paths).stop_strays()
            if spec and spec.nodes:
                remove_from_host(tool, spec)
            shutil.rmtree(paths.root, ignore_errors=False)
        paths.lock.unlink()
    return True


def take_down(parts: Parts) -> None:
    parts.kueue.stop()
    parts.fake_nodes.stop()
    parts.processes.stop(PROVISIONER)
    for node in parts.nodes:
        node.power_off()
    parts.control_plane.stop()
    if parts.spec.nodes:
        parts.registry.stop()


def remove_from_host(tool: Tool, spec: ClusterSpec) -> None:
    """Cgroups, bridge and rules; the host's own state goes back when no other cluster needs it changed."""
    cgroups.remove(spec.addresses.bridge)
    network.bridge_down(spec.addresses)
    saved = tool.cache.cluster(spec.name).host_changes
    others = [other for _, other in clusters(tool.cache) if other.name != spec.name and other.nodes]
    if others:
        host_state.bequeath(saved, tool.cache.cluster(others[0].name).host_changes)
    else:
        host_state.restore(saved)
