"""Processes, locks, cgroups, programs and images, on files and processes of the test's own."""

import errno
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweyard_cluster import cgroups, host_state
from sweyard_cluster.__main__ import sentence
from sweyard_cluster.addresses import Addresses
from sweyard_cluster.arguments import parser
from sweyard_cluster.binaries import check_version, content_key
from sweyard_cluster.commands import up_again
from sweyard_cluster.daemons import daemon_names
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.host import missing_packages
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.locking import exclusive
from sweyard_cluster.network import nat_table
from sweyard_cluster.node import is_listening
from sweyard_cluster.node_config import NodeFiles
from sweyard_cluster.paths import Cache
from sweyard_cluster.pki import issue, make_authority
from sweyard_cluster.processes import ProcessRecord, ProcessTable, end_process, identify
from sweyard_cluster.recipes import GROUPS, RECIPES, pinned_version, recipes_for
from sweyard_cluster.scratch_image import scratch_image
from sweyard_cluster.spec import ClusterRequest, ClusterSpec, grown
from sweyard_cluster.terminal import Progress
from sweyard_cluster.testing import remove_abandoned

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    made = ProcessTable(tmp_path / "processes", tmp_path / "logs", str(tmp_path))
    yield made
    made.stop_strays()
    for name in made.names():
        made.stop(name)


def test_started_process_is_known_until_it_ends(table: ProcessTable) -> None:
    record = table.start("sleeper", SLEEP, os.environ)
    assert table.running("sleeper") == record
    assert table.start("sleeper", SLEEP, os.environ) == record
    table.stop("sleeper")
    assert identify(record.pid) != record
    assert table.names() == []


def test_what_a_killed_removal_left_of_a_sessions_cluster_is_removed(tmp_path: Path) -> None:
    tool = Tool(Cache(tmp_path), os.environ, Progress(io.StringIO()))
    for name in ("test-gone-1", "mine"):
        tool.cache.cluster(name).logs.mkdir(parents=True)
    remove_abandoned(tool)
    assert [path.name for path in tool.cache.clusters.glob("[!.]*")] == ["mine"]


def test_a_started_process_keeps_nothing_open_of_its_starter(table: ProcessTable, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        record = table.start("sleeper", SLEEP, os.environ)
    opened = [path.readlink() for path in Path(f"/proc/{record.pid}/fd").iterdir()]
    assert {path.name for path in opened if path.is_relative_to(tmp_path)} == {"sleeper.log"}


@pytest.mark.parametrize("field", ["boot_id", "start_ticks", "executable"])
def test_another_process_under_a_recorded_pid_is_left_alone(table: ProcessTable, field: str) -> None:
    record = table.start("sleeper", SLEEP, os.environ)
    other = {"boot_id": "another boot", "start_ticks": 1, "executable": "/bin/other"}[field]
    table.write("stale", ProcessRecord(**{**record.__dict__, field: other}))
    assert table.running("stale") is None
    table.stop("stale")
    assert identify(record.pid) == record


def test_unrecorded_process_is_found_and_ended(table: ProcessTable) -> None:
    kept = table.start("kept", SLEEP, os.environ)
    lost = table.start("lost", SLEEP, os.environ)
    (table.records / "lost.json").unlink()
    # The kernel shows a new process's environment a moment after its program.
    table.wait("kept", lambda: {record.pid for record in table.strays()} == {kept.pid, lost.pid}, 60)
    table.stop_strays()
    assert identify(lost.pid) != lost
    assert table.running("kept") == kept


def test_process_that_ignores_the_first_signal_is_ended(table: ProcessTable, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )
    record = table.start("deaf", [sys.executable, "-c", deaf], os.environ)
    table.wait("deaf", ready.exists, 60)
    end_process(record, grace_seconds=0.2)
    assert identify(record.pid) != record


def test_end_before_readiness_is_told_with_the_log(table: ProcessTable) -> None:
    failing = "import time; print('port is taken', flush=True); time.sleep(0.3)"
    table.start("brief", [sys.executable, "-c", failing], os.environ)
    with pytest.raises(ClusterError, match="port is taken"):
        table.wait("brief", lambda: False, 60)


def test_the_end_of_what_is_needed_is_told_in_place_of_a_vain_wait(table: ProcessTable) -> None:
    table.start("server", SLEEP, os.environ)
    table.start("store", [sys.executable, "-c", "print('the disk is full')"], os.environ)
    with pytest.raises(ClusterError, match=r"^store ended; .*\nthe disk is full"):
        table.wait("server", lambda: False, 60, needs=["store"])


def test_a_disk_that_was_full_for_a_process_is_told_by_its_directory(table: ProcessTable, tmp_path: Path) -> None:
    trace = "print('panic: write wal: no space left on device'); print('main.go:40\\n' * 9)"
    table.start("store", [sys.executable, "-c", trace], os.environ)
    with pytest.raises(ClusterError, match=f"^store ended; no space left for {tmp_path}: make some"):
        table.wait("store", lambda: False, 60)


def test_missing_program_is_named(table: ProcessTable) -> None:
    with pytest.raises(ClusterError, match="cannot start etcd: /nowhere/etcd: No such file"):
        table.start("etcd", ["/nowhere/etcd"], os.environ)


def test_lock_is_held_by_one_even_if_its_file_is_deleted(tmp_path: Path) -> None:
    lock, inside, most = tmp_path / "lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with exclusive(lock):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1
                lock.unlink()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_who_waits_for_a_lock_says_so_and_goes_on(tmp_path: Path) -> None:
    lock, told = tmp_path / "lock", io.StringIO()
    with exclusive(lock):
        waiter = threading.Thread(target=_hold, args=(lock, Progress(told)))
        waiter.start()
        while "waits for another build to end" not in told.getvalue():
            time.sleep(0.001)
        assert "held" not in told.getvalue()
    waiter.join()
    assert told.getvalue().endswith("held\n")


def test_a_free_lock_is_taken_without_a_word(tmp_path: Path) -> None:
    told = io.StringIO()
    _hold(tmp_path / "lock", Progress(told))
    assert told.getvalue() == "held\n"


def _hold(lock: Path, progress: Progress) -> None:
    with exclusive(lock, lambda: progress.await_turn("another build")):
        progress.say("held")


def test_cgroup_v1_is_made_in_every_hierarchy_with_its_cpus(tmp_path: Path) -> None:
    for name in ("memory", "unified"):
        (tmp_path / name).mkdir()
    cpuset = tmp_path / "cpuset"
    cpuset.mkdir()
    (cpuset / "cpuset.cpus").write_text("0-1")
    (tmp_path / "cpu").symlink_to(cpuset)
    for level in ("swy0", "swy0/node1"):
        (cpuset / level).mkdir()
        (cpuset / level / "cpuset.cpus").touch()
    cgroups.make(("swy0", "node1"), tmp_path)
    assert (tmp_path / "memory/swy0/node1").is_dir()
    assert not (tmp_path / "unified/swy0").exists()
    assert (cpuset / "swy0/node1/cpuset.cpus").read_text() == "0-1"


def test_cgroup_v2_hands_down_its_controllers(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "swy0").mkdir()
    (tmp_path / "swy0/cgroup.controllers").write_text("cpu memory\n")
    cgroups.make(("swy0", "node1"), tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "swy0/cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "swy0/node1").is_dir()


def test_cgroups_are_removed_from_the_leaves(tmp_path: Path) -> None:
    (tmp_path / "memory/swy0/node1/kubepods/pod1").mkdir(parents=True)
    (tmp_path / "memory/other").mkdir()
    cgroups.remove("swy0", tmp_path)
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["other"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with little, one of its settings high enough and one of the mount points in use."""
    for name, value in FORMER.items():
        (tmp_path / "root/proc/sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/proc/sys" / name).write_text(value)
    (tmp_path / "root/var/log/pods").mkdir(parents=True)
    return tmp_path / "root"


FORMER = {"net/ipv4/ip_forward": "0", "fs/inotify/max_user_instances": "128", "fs/inotify/max_user_watches": "999999"}


def settings(root: Path) -> dict[str, str]:
    return {name: (root / "proc/sys" / name).read_text() for name in FORMER}


def test_host_is_changed_and_put_back(root: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    host_state.prepare(saved, root)
    host_state.prepare(saved, root)
    assert list(settings(root).values()) == ["1", "8192", "999999"]
    assert (root / "var/lib/kubelet").is_dir()
    host_state.restore(saved, root)
    assert settings(root) == FORMER
    assert not (root / "var/lib/kubelet").exists()
    assert (root / "var/log/pods").is_dir()


def test_last_cluster_puts_the_host_back(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    host_state.prepare(first, root)
    host_state.prepare(second, root)
    host_state.bequeath(first, second)
    host_state.restore(second, root)
    assert settings(root) == FORMER
    assert not (root / "var/lib/cni").exists()


def test_nothing_inside_the_cluster_is_masqueraded() -> None:
    rules = nat_table(Addresses(2))
    inside = "172.29.2.0/24, 10.66.0.0/16, 10.130.0.0/16"
    assert f"ip saddr {{ {inside} }} ip daddr != {{ {inside} }}" in rules


def test_content_key_depends_on_content_names_and_flags() -> None:
    keys = {
        content_key([("go.mod", b"a"), ("go.sum", b"b")], "-s"),
        content_key([("go.mod", b"ab"), ("go.sum", b"")], "-s"),
        content_key([("go.sum", b"a"), ("go.mod", b"b")], "-s"),
        content_key([("go.mod", b"a"), ("go.sum", b"b")], "-w"),
    }
    assert len(keys) == 4
    assert content_key([("go.mod", b"a")], "") == content_key([("go.mod", b"a")], "")


@pytest.mark.parametrize("program", [program for group in GROUPS.values() for program in group])
def test_every_program_has_one_recipe_with_a_pinned_version(program: str) -> None:
    ((recipe, programs),) = recipes_for([program])
    assert programs == [program]
    assert recipe.version()[0].isdigit()


def test_kubernetes_staging_modules_are_of_the_same_release() -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.pins == "k8s.io/kubernetes")
    minor = recipe.version().removeprefix("1.")
    replaced = [line for line in (recipe.directory / "go.mod").read_text().splitlines() if " => " in line]
    assert replaced
    assert all(line.endswith(f" v0.{minor}") for line in replaced)


def test_version_is_read_from_either_form_of_go_mod() -> None:
    assert pinned_version("require example.test/tool v1.2.3\n", "example.test/tool") == "1.2.3"
    assert pinned_version("require (\n\texample.test/tool v1.2.3 // indirect\n)\n", "example.test/tool") == "1.2.3"
    with pytest.raises(ClusterError, match=r"does not require example\.test/tool"):
        pinned_version("require example.test/tools v1.2.3\n", "example.test/tool")


def test_program_of_another_version_is_refused() -> None:
    python = Path(sys.executable)
    check_version(python, ["--version"], ".".join(map(str, sys.version_info[:3])))
    with pytest.raises(ClusterError, match=r"should be version 1\.0\.0 but says: Python 3"):
        check_version(python, ["--version"], "1.0.0")


def test_missing_program_asks_for_its_package() -> None:
    assert missing_packages({"sh": "dash", "no-such-program": "its-package"}) == ["its-package"]


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


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left for something below /cache: make some"),
        (OSError(errno.ENOSPC, "No space left on device", "/cache/etcd"), "no space left for /cache/etcd: make some"),
        (PermissionError(errno.EACCES, "Permission denied", "/cache/bin"), "/cache/bin cannot be written"),
        (OSError(errno.EROFS, "Read-only file system", "/cache/bin"), "/cache/bin cannot be written"),
        (OSError(errno.EIO, "Input/output error", "/cache/bin"), "/cache/bin: Input/output error"),
    ],
    ids=["full", "full, and where", "not ours", "read-only", "broken"],
)
def test_what_the_system_refuses_is_told_with_its_place(error: OSError, told: str) -> None:
    assert sentence(error, Path("/cache")).startswith(told)


def test_the_socket_that_a_killed_daemon_left_behind_is_not_taken_for_a_daemon(tmp_path: Path) -> None:
    address = str(tmp_path / "daemon.sock")
    assert not is_listening(address)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(address)
        daemon.listen()
        assert is_listening(address)
    assert Path(address).exists()
    assert not is_listening(address)
