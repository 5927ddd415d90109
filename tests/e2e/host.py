"""What befalls a cluster from outside of its pods: processes that are killed or stand still, memory that runs out,
connections that go dead."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sweyard_cluster import lifecycle
from sweyard_cluster.processes import identify
from sweyard_cluster.testing import TestCluster

DOWN_SECONDS = 10.0
"""How long a killed daemon is away."""
FIRST_VICTIM = "1000"
"""The score that the kernel's choice falls on."""
EATER = """
import os, sys
sys.stdin.readline()
file, block = os.memfd_create("eaten"), bytes(1 << 24)
for _ in range(512):
    try:
        if open(f"/proc/{sys.argv[1]}/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
    except (FileNotFoundError, ProcessLookupError):
        break
    os.write(file, block)
"""
"""Eats up to 8 GiB, until a process has ended. What is in a file counts for the cgroup and not as the eater's own:
else the kernel might choose the eater."""


class NoVictimError(AssertionError):
    """There is no such process now."""


class Host:
    """The machine that a cluster of `python -m sweyard_cluster` runs on."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster

    def kill(self, pod_uids: Sequence[str], command: str) -> None:
        """kill -9 for all processes of pods whose command line holds `command`."""
        for pid in in_pods(pod_uids, command):
            os.kill(pid, signal.SIGKILL)

    def exhaust_memory(self, pod_uids: Sequence[str], command: str) -> None:
        """The memory limit of such a process's container is reached, and the kernel kills that process for it."""
        victim = in_pods(pod_uids, command)[0]
        Path(f"/proc/{victim}/oom_score_adj").write_text(FIRST_VICTIM)
        with subprocess.Popen([sys.executable, "-c", EATER, str(victim)], stdin=subprocess.PIPE) as eater:
            memory_cgroup(victim).joinpath("cgroup.procs").write_text(str(eater.pid))
            eater.communicate(b"eat\n", timeout=120)
        if identify(victim) is not None:
            raise AssertionError(f"process {victim} has outlived it, the eater ended with {eater.returncode}")

    def kill_daemons(self, *programs: str) -> None:
        """kill -9 for programs of the cluster itself, such as etcd or kubelet, and start again what is then not there
        some seconds later, as whoever keeps a node does."""
        for pid in self._daemons(*programs):
            os.kill(pid, signal.SIGKILL)
        time.sleep(DOWN_SECONDS)
        self.heal()

    def heal(self) -> None:
        """Start what is not there of the cluster."""
        lifecycle.up(self._cluster.tool, self._cluster.name, 1)

    @contextlib.contextmanager
    def standing_still(self, program: str) -> Iterator[None]:
        """A program of the cluster says and does nothing meanwhile; what it started goes on."""
        (pid,) = self._daemons(program)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def dead_connections(self, pod_uids: Sequence[str], command: str) -> Iterator[None]:
        """Nothing comes or goes on the connections that a pod has now, and nobody is told; new ones work."""
        enter = ["nsenter", "--target", str(in_pods(pod_uids, command)[0]), "--net", "--"]
        told = subprocess.run(
            [*enter, "ss", "-Htn", "state", "established"], check=True, capture_output=True, text=True
        )
        ports = {line.split()[2].rpartition(":")[2] for line in told.stdout.splitlines()}
        subprocess.run([*enter, "nft", "-f", "-"], check=True, text=True, input=dropping(ports))
        try:
            yield
        finally:
            subprocess.run([*enter, "nft", "delete", "table", "inet", "dead"], check=True)

    def in_node(self, *command: str) -> str:
        """Standard output of a command in the cluster's only node."""
        (node,) = self._cluster.tool.parts(self._cluster.tool.spec(self._cluster.name)).nodes
        return subprocess.run(
            [*node.enter_command(), *command], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        ).stdout

    def _daemons(self, *programs: str) -> list[int]:
        home, found = str(self._cluster.tool.cache.cluster(self._cluster.name).root), []
        for pid in processes(home):
            program = read(Path(f"/proc/{pid}/cmdline")).partition("\0")[0]
            if Path(program).name in programs:
                found.append(pid)
        if not found:
            raise AssertionError(f"no process of {', '.join(programs)} in {home}")
        return found


def in_pods(pod_uids: Sequence[str], command: str) -> list[int]:
    """Processes of these pods whose command line holds `command`, by age. Raises NoVictimError if there is none."""
    found = [pid for pid in sorted(processes(command)) if any(uid in cgroups(pid) for uid in pod_uids)]
    if not found:
        raise NoVictimError(f"no process {command!r} in {pod_uids}")
    return found


def processes(command: str) -> list[int]:
    """Those whose command line holds `command`."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in entries if command in read(entry / "cmdline").replace("\0", " ")]


def cgroups(pid: int) -> str:
    """Of a process, with UIDs as the API has them."""
    return read(Path(f"/proc/{pid}/cgroup")).replace("_", "-")


def memory_cgroup(pid: int) -> Path:
    """Where its memory is counted, under version 1 of cgroups or 2."""
    lines = [line.split(":", 2) for line in read(Path(f"/proc/{pid}/cgroup")).splitlines()]
    paths = {controllers: path.lstrip("/") for _, controllers, path in lines}
    root = Path("/sys/fs/cgroup")
    return root / "memory" / paths["memory"] if "memory" in paths else root / paths[""]


def dropping(ports: Iterable[str]) -> str:
    """Rules for nft."""
    told = ", ".join(sorted(ports))
    return (
        "table inet dead {\n"
        f" chain out {{ type filter hook output priority 0; tcp sport {{ {told} }} drop; }}\n"
        f" chain in {{ type filter hook input priority 0; tcp dport {{ {told} }} drop; }}\n"
        "}\n"
    )


def read(path: Path) -> str:
    """Its text; none of a process that has ended."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
