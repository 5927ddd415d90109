"""One real node: namespaces held by a small first process, and in them containerd, kubelet, proxy and policy."""

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from . import cgroups, network
from .api import Api
from .binaries import Binaries
from .errors import ClusterError
from .host_state import MOUNT_POINTS
from .node_config import CONTAINERD_SOCKET, STRICT_SPEC, NodeFiles, own_directory, strict_spec
from .paths import ClusterPaths
from .pki import issue, write_kubeconfig
from .policy import kube_router_command, policy_enforced
from .processes import ProcessTable, end_process, identify, only_child
from .spec import ClusterSpec, node_name

SOCKET_SECONDS = 60.0
KUBELET_SECONDS = 120.0
KUBELET_PORT = 10250
REGISTERED_SECONDS = 120.0
POLICY_SECONDS = 60.0
PROGRAMS = ("containerd", "kubelet", "kube-proxy", "kube-router")
"""What runs in a node's namespaces, in the order in which it starts."""


@dataclass(frozen=True)
class Node:
    """Node `index` of a cluster."""

    spec: ClusterSpec
    index: int
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    @property
    def name(self) -> str:
        return node_name(self.index)

    @property
    def files(self) -> NodeFiles:
        state = self.paths.node(self.name)
        return NodeFiles(self.name, self.index, self.spec.addresses, state, self.paths.pki)

    @property
    def powered(self) -> bool:
        return self.processes.running(self.name) is not None

    def start(self) -> None:
        """Start what does not run of the node; repeatable, and the way to heal a failed node."""
        self._write_files()
        cgroups.make(self.files.cgroup)
        pid = self._power_on()
        network.connect_node(self.spec.addresses, self.index, pid)
        state, programs = self.files.state, self.binaries
        self._inside("containerd", str(programs.path("containerd")), "-c", f"{state}/containerd.toml")
        address = f"/proc/{pid}/root{CONTAINERD_SOCKET}"
        self.processes.wait(f"{self.name}-containerd", lambda: is_listening(address), SOCKET_SECONDS)
        self.processes.wait(f"{self.name}-containerd", self._serves, KUBELET_SECONDS)
        self._inside("kube-proxy", str(programs.path("kube-proxy")), f"--config={state}/kube-proxy.yaml")

    def _serves(self) -> bool:
        """Whether the kubelet does, started if need be: it ends when it comes while containerd, after a crash, is still
        taking up the pods that run."""
        state, address = self.files.state, self.spec.addresses.node(self.index)
        self._inside("kubelet", str(self.binaries.path("kubelet")), f"--config={state}/kubelet.yaml",
                     f"--kubeconfig={state}/kubelet.kubeconfig", f"--hostname-override={self.name}",
                     f"--node-ip={address}")  # fmt: skip
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((address, KUBELET_PORT)) == 0

    def start_policy(self) -> None:
        """Start the enforcer of NetworkPolicy, which needs the Node object to exist, and wait until it is at work."""
        api = Api(self.paths.kubeconfig)
        registered = f"/api/v1/nodes/{self.name}"
        self.processes.wait(f"{self.name}-kubelet", lambda: api.answers(registered), REGISTERED_SECONDS)
        command = kube_router_command(self.binaries.path("kube-router"), self.files, self.spec)
        self._inside("kube-router", *command)
        address = self.spec.addresses.node(self.index)
        self.processes.wait(f"{self.name}-kube-router", lambda: policy_enforced(address), POLICY_SECONDS)

    def power_off(self) -> None:
        """End everything of the node at once, as a power cut does; its disk stays."""
        if record := self.processes.running(self.name):
            # The first process takes the whole pid namespace with it.
            if first := identify(only_child(record.pid)):
                end_process(first, grace_seconds=0)
            end_process(record, grace_seconds=5)
        for name in self.processes.names():
            if name == self.name or name.startswith(f"{self.name}-"):
                self.processes.stop(name)
        network.disconnect_node(self.spec.addresses, self.index)

    def _power_on(self) -> int:
        """Pid, on the host, of the node's first process."""
        pause = str(self.binaries.path("pause"))
        command = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "--propagation", "private", "bash", f"{self.files.state}/enter.sh", pause]  # fmt: skip
        record = self.processes.start(self.name, command, self.environment())
        pid = only_child(record.pid)

        def entered() -> bool:
            first = identify(pid)
            return first is not None and first.executable == pause

        self.processes.wait(self.name, entered, SOCKET_SECONDS)
        return pid

    def enter_command(self) -> list[str]:
        """What to put before a command to run it inside the node; raises ClusterError if it is powered off."""
        record = self.processes.running(self.name)
        if record is None:
            raise ClusterError(f"{self.name} is powered off; heal it first")
        target = str(only_child(record.pid))
        return ["nsenter", "--target", target, "--net", "--mount", "--uts", "--ipc", "--pid", "--"]

    def _inside(self, program: str, *command: str) -> None:
        self.processes.start(f"{self.name}-{program}", [*self.enter_command(), *command], self.environment())

    def environment(self) -> Mapping[str, str]:
        """Of what runs inside: ours, with the node's programs in PATH, where containerd looks for its shim."""
        path = f"{self.binaries.path('containerd').parent}:{self.binaries.environment.get('PATH', '')}"
        return {**self.binaries.environment, "PATH": f"{path}:/usr/sbin:/sbin"}

    def _write_files(self) -> None:
        state, pki = self.files.state, self.paths.pki
        for place in MOUNT_POINTS:
            (state / own_directory(place)).mkdir(parents=True, exist_ok=True)
        self.files.write()
        default = subprocess.run([self.binaries.path("ctr"), "oci", "spec"], check=True, capture_output=True, text=True)
        (state / STRICT_SPEC).write_text(strict_spec(default.stdout))
        issue(pki, self.name, f"/O=system:nodes/CN=system:node:{self.name}",
              [f"IP:{self.spec.addresses.node(self.index)}", f"DNS:{self.name}"])  # fmt: skip
        for user, file in ((self.name, "kubelet"), ("kube-proxy", "kube-proxy"), ("kube-router", "kube-router")):
            write_kubeconfig(state / f"{file}.kubeconfig", self.spec.api_url, pki, user, self.spec.name)


def is_listening(address: str) -> bool:
    """Whether somebody answers on a Unix socket: one that was killed leaves its file behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(address) == 0
