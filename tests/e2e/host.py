"""What befalls a cluster from outside of its pods: processes that are killed or stand still, memory that runs out,
connections that go dead."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sweyard_cluster import lifecycle
from sweyard_cluster.control_plane import KEEPER
from sweyard_cluster.processes import identify
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.testing import TestCluster

DOWN_SECONDS = 10.0
"""How long a killed daemon is away."""
FIRST_VICTIM, LAST_VICTIM = "1000", "0"
"""Scores that the kernel's choice falls on first and last. It adds them to the memory that a process has."""
EATER = """
import os, sys
if not (told := sys.stdin.readline().split()):
    sys.exit()
victim, counter = told
file, block = os.memfd_create("eaten"), bytes(1 << 24)
for _ in range(64):
    try:
        if open(f"/proc/{victim}/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
    except (FileNotFoundError, ProcessLookupError):
        break
    os.write(file, block)
print(open(counter).read())
"""
"""Eats up to 1 GiB, until a process has ended, and tells what its cgroup counted, which is there as long as it is. What
is in a file counts for the cgroup and not as the eater's own: else the kernel might choose the eater."""
ROOM_BYTES = 128 << 20
"""That a container is left beside what it has, before memory runs out in it."""
QUIET_SECONDS = 20
"""On a connection on which nothing was sent for so long somebody listens: one that is kept for requests is closed
sooner, and the leader Lease is renewed more often."""


class NoVictimError(AssertionError):
    """There is no such process now."""


class Host:
    """The machine that a cluster of `python -m sweyard_cluster` runs on."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster

    def kill(self, pod_uids: Sequence[str], command: str) -> None:
        """kill -9 for all processes of pods whose command line holds `command`."""
        for pid in in_pods(pod_uids, command):
            with contextlib.suppress(ProcessLookupError):  # the first of a container takes the others with it
                os.kill(pid, signal.SIGKILL)

    def has_loaded(self, pod_uids: Sequence[str], command: str, library: str) -> bool:
        """Whether all such processes have."""
        return all(library in read(Path(f"/proc/{pid}/maps")) for pid in in_pods(pod_uids, command))

    def exhaust_memory(self, pod_uids: Sequence[str], command: str) -> None:
        """The memory limit of such a process's container, which is lowered to be soon done, is reached, and the kernel
        kills that process for it.

        Raises NoVictimError if that has ended by itself meanwhile.
        """
        with subprocess.Popen(
            [sys.executable, "-c", EATER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as eater:
            told = self._eat(eater, in_pods(pod_uids, command)[0])
        if "oom_kill 0" in told.splitlines():
            raise NoVictimError(f"it has ended by itself: {told}")

    def _eat(self, eater: subprocess.Popen[str], victim: int) -> str:
        """What the victim's cgroup then counts."""
        cgroup = memory_cgroup(victim)
        choose_victim(cgroup, victim)
        tighten(cgroup)
        cgroup.joinpath("cgroup.procs").write_text(str(eater.pid))
        told, _ = eater.communicate(f"{victim} {kill_counter(cgroup)}\n", timeout=120)
        if identify(victim) is not None:
            raise AssertionError(f"process {victim} has outlived it, the eater ended with {eater.returncode}: {told}")
        return told

    def kill_daemons(self, *programs: str) -> None:
        """kill -9 for programs of the cluster itself, such as etcd or kubelet, and start again what is then not there
        some seconds later, as whoever keeps a node does; the cluster's own keeper would be sooner."""
        with self._still(self._keeper()):
            for pid in self._daemons(*programs):
                os.kill(pid, signal.SIGKILL)
            time.sleep(DOWN_SECONDS)
            self.heal()

    def heal(self) -> None:
        """Start what is not there of the cluster."""
        lifecycle.up(self._cluster.tool, self._cluster.name, ClusterRequest(nodes=1))

    def standing_still(self, program: str) -> AbstractContextManager[None]:
        """A program of the cluster says and does nothing meanwhile; what it started goes on."""
        (pid,) = self._daemons(program)
        return self._still(pid)

    def paused(self, pod_uids: Sequence[str], command: str) -> AbstractContextManager[None]:
        """The oldest such process does nothing meanwhile."""
        return self._still(in_pods(pod_uids, command)[0])

    def hang(self, pod_uids: Sequence[str], command: str) -> None:
        """The oldest such process does nothing any more, whatever it is asked, until it is killed."""
        os.kill(in_pods(pod_uids, command)[0], signal.SIGSTOP)

    @contextlib.contextmanager
    def _still(self, pid: int) -> Iterator[None]:
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def dead_watches(self, pod_uids: Sequence[str], command: str) -> Iterator[None]:
        """Nothing comes or goes on the connections on which a pod listens now, and nobody is told; others work."""
        # Held open, since the process may end of this, and its pod's network outlives it.
        with open(f"/proc/{in_pods(pod_uids, command)[0]}/ns/net") as network:
            enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network.fileno()}", "--"]
            listed = [*enter, "ss", "-Htni", "state", "established", "dport", "=", ":443"]
            told = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
            subprocess.run([*enter, "nft", "-f", "-"], check=True, text=True, input=dropping(listening_ports(told)))
            try:
                yield
            finally:
                subprocess.run([*enter, "nft", "delete", "table", "inet", "dead"], check=True)

    def in_node(self, *command: str) -> str:
        """Standard output of a command in the first of the cluster's nodes that has power."""
        nodes = self._cluster.tool.parts(self._cluster.tool.spec(self._cluster.name)).nodes
        node = next(one for one in nodes if one.powered)
        return subprocess.run(
            [*node.enter_command(), *command], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        ).stdout

    def _keeper(self) -> int:
        """What starts the parts of the control plane again."""
        tool = self._cluster.tool
        record = tool.processes(tool.cache.cluster(self._cluster.name)).running(KEEPER)
        assert record is not None
        return record.pid

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
    found = [pid for pid in processes(command) if any(uid in cgroups(pid) for uid in pod_uids)]
    living = [record for pid in found if (record := identify(pid))]
    if not living:
        raise NoVictimError(f"no process {command!r} in {pod_uids}")
    return [record.pid for record in sorted(living, key=lambda record: record.start_ticks)]


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


def choose_victim(cgroup: Path, victim: int) -> None:
    """The kernel is to choose it, not a child of it that has more memory, of which it would learn only later."""
    for pid in read(cgroup / "cgroup.procs").split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            Path(f"/proc/{pid}/oom_score_adj").write_text(FIRST_VICTIM if int(pid) == victim else LAST_VICTIM)


def tighten(cgroup: Path) -> None:
    """Lower the limit to little more than what is in use and cannot be reclaimed, under version 1 of cgroups or 2."""
    figures = {name: int(value) for name, value in map(str.split, read(cgroup / "memory.stat").splitlines())}
    used = figures["anon" if "anon" in figures else "rss"] + figures["shmem"]
    version_2 = cgroup / "memory.max"
    limit = version_2 if version_2.exists() else cgroup / "memory.limit_in_bytes"
    limit.write_text(str(used + ROOM_BYTES))


def kill_counter(cgroup: Path) -> Path:
    """The file that says how many processes the kernel has killed there for want of memory."""
    return cgroup / ("memory.oom_control" if (cgroup / "memory.oom_control").exists() else "memory.events")


def listening_ports(told: str) -> set[str]:
    """Of connections, as `ss -Htni` tells them in two lines each, the ports of those on which nothing was sent for
    long. Raises NoVictimError if there is none."""
    lines = told.splitlines()
    quiet = {
        first.split()[2].rpartition(":")[2]
        for first, second in zip(lines[::2], lines[1::2], strict=True)
        if (since := re.search(r"\blastsnd:(\d+)", second)) and int(since[1]) > QUIET_SECONDS * 1_000
    }
    if not quiet:
        raise NoVictimError(f"nobody listens on any of these connections: {told}")
    return quiet


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
