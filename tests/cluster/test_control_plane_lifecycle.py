"""`up --control-plane-only`: repeated, killed, beside others, without root."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from sweyard_cluster.lifecycle import Tool

pytestmark = pytest.mark.apiserver

Command = Callable[..., subprocess.CompletedProcess[str]]
CLUSTER_PACKAGE = Path(__file__).parents[2] / "cluster"
NOBODY = "65534"


@pytest.fixture
def names(command: Command) -> Iterator[list[str]]:
    chosen = [f"own-{uuid.uuid4().hex[:6]}" for _ in range(2)]
    yield chosen
    for name in chosen:
        command("down", "--name", name)


@pytest.fixture(scope="module")
def running(command: Command) -> Iterator[str]:
    """The name of a cluster that is up, shared by tests that leave it so."""
    name = f"own-{uuid.uuid4().hex[:6]}"
    command("up", "--control-plane-only", "--name", name)
    yield name
    command("down", "--name", name)


def process_ids(tool: Tool, name: str) -> dict[str, int]:
    processes = tool.processes(tool.cache.cluster(name))
    return {one: record.pid for one in processes.names() if (record := processes.running(one))}


def test_up_again_changes_nothing(command: Command, running: str, cluster_tool: Tool) -> None:
    first = process_ids(cluster_tool, running)
    assert set(first) == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "keeper"}
    command("up", "--control-plane-only", "--name", running)
    assert process_ids(cluster_tool, running) == first


def test_up_restarts_what_died_and_keeps_data(command: Command, running: str, cluster_tool: Tool) -> None:
    cluster_tool.kubectl(running).run("create", "namespace", "kept")
    before = process_ids(cluster_tool, running)
    for name in ("keeper", "etcd", "kube-apiserver"):
        os.kill(before[name], signal.SIGKILL)
    time.sleep(0.5)
    assert (
        "What is stopped starts again with: python -m sweyard_cluster up" in command("status", "--name", running).stdout
    )
    command("up", "--control-plane-only", "--name", running)
    after = process_ids(cluster_tool, running)
    assert set(after) == set(before)
    assert after["etcd"] != before["etcd"]
    cluster_tool.kubectl(running).run("get", "namespace", "kept")


def test_what_ends_of_a_control_plane_is_started_again_and_told(
    command: Command, running: str, cluster_tool: Tool
) -> None:
    before = process_ids(cluster_tool, running)
    parts = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    for name in parts:
        os.kill(before[name], signal.SIGKILL)
    give_up_at = time.monotonic() + 120
    while {name for name, pid in process_ids(cluster_tool, running).items() if pid != before.get(name)} != set(parts):
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
    told = command("status", "--name", running).stdout
    assert all(f"{name} was started again, pid " in told for name in parts)


@pytest.mark.parametrize("seconds", [0.4, 1.2, 3.0])
def test_killed_up_is_repeated_and_leaves_no_stray(
    seconds: float, command: Command, names: list[str], cluster_tool: Tool
) -> None:
    arguments = [sys.executable, "-m", "sweyard_cluster", "up", "--control-plane-only", "--name", names[0]]
    with subprocess.Popen(arguments, cwd=CLUSTER_PACKAGE, stderr=subprocess.DEVNULL) as started:
        time.sleep(seconds)
        started.kill()
    command("up", "--control-plane-only", "--name", names[0])
    processes = cluster_tool.processes(cluster_tool.cache.cluster(names[0]))
    assert {record.pid for record in processes.strays()} == set(process_ids(cluster_tool, names[0]).values())
    command("down", "--name", names[0])
    assert list(processes.strays()) == []


def test_nothing_runs_of_a_new_cluster_that_did_not_start(
    command: Command, names: list[str], cluster_tool: Tool
) -> None:
    paths = cluster_tool.cache.cluster(names[0])
    paths.logs.joinpath("audit.log").mkdir(parents=True)
    arguments = ("up", "--control-plane-only", "--audit", "--name", names[0])
    told = command(*arguments, succeed=False)
    assert told.returncode == 1
    assert f"the end of {paths.logs}/kube-apiserver.log" in told.stderr
    assert paths.logs.joinpath("kube-apiserver.log").exists()
    assert list(cluster_tool.processes(paths).strays()) == []
    paths.logs.joinpath("audit.log").rmdir()
    command(*arguments)


def test_parallel_clusters_do_not_disturb_each_other(command: Command, names: list[str], cluster_tool: Tool) -> None:
    arguments = [sys.executable, "-m", "sweyard_cluster", "up", "--control-plane-only", "--name"]
    started = [subprocess.Popen([*arguments, name], cwd=CLUSTER_PACKAGE, stderr=subprocess.PIPE) for name in names]
    for one in started:
        _, errors = one.communicate(timeout=300)
        assert one.returncode == 0, errors
    assert len({cluster_tool.spec(name).slot for name in names}) == 2
    for name in names:
        cluster_tool.kubectl(name).run("create", "namespace", name)
    command("down", "--name", names[0])
    seen = json.loads(cluster_tool.kubectl(names[1]).run("get", "namespaces", "-o", "json"))["items"]
    assert names[1] in [item["metadata"]["name"] for item in seen]
    assert names[0] not in [item["metadata"]["name"] for item in seen]


def test_simulated_nodes_join_a_cluster_and_run_pods(command: Command, running: str, cluster_tool: Tool) -> None:
    command("up", "--control-plane-only", "--fake-nodes", "3", "--name", running)
    kubectl = cluster_tool.kubectl(running)
    kubectl.run("create", "deployment", "many", "--image=example.test/none:1", "--replicas=20")
    kubectl.run("rollout", "status", "deployment/many", "--timeout=60s")


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that others than its owner may enter, which pytest sees to that none of its own is."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def test_needs_no_root(names: list[str], cluster_tool: Tool, open_directory: Path) -> None:
    cache = open_directory / "cache"
    for binary in cluster_tool.cache.binaries.glob("[!.]*/*"):
        copy = cache / "bin" / binary.parent.name / binary.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        os.link(binary, copy)
    # The interpreter of a virtual environment may lie where only its owner looks; the system's will do.
    packages = f"{CLUSTER_PACKAGE}:{Path(yaml.__file__).parents[1]}"
    environment = {"PATH": os.environ["PATH"], "SWEYARD_CACHE": str(cache), "PYTHONPATH": packages}
    unprivileged = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]
    as_nobody = unprivileged if os.geteuid() == 0 else []
    if as_nobody:
        for directory in (cache, *cache.rglob("*/")):
            os.chown(directory, int(NOBODY), int(NOBODY))

    def run(*arguments: str) -> str:
        command = [*as_nobody, "/usr/bin/python3", "-m", "sweyard_cluster", *arguments, "--name", names[0]]
        done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        run("up", "--control-plane-only")
        status = run("status")
        assert (status.count("running"), status.count("stopped")) == (5, 0)
    finally:
        run("down")
