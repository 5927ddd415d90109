"""A cluster and an operator process that a benchmark makes for itself and takes down again."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sweyard_api.kinds import KINDS
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.paths import Cache, cache_root
from sweyard_cluster.terminal import Progress
from sweyard_cluster.testing import TestCluster, shared_cluster

CHECKOUT = Path(__file__).parents[1]
_READY_SECONDS = 60.0


@contextlib.contextmanager
def own_cluster(*, nodes: int = 0, fake_nodes: int = 0, audit: bool = False) -> Iterator[TestCluster]:
    """A fresh cluster with our kinds in it. No real nodes: a control plane alone, which needs no root."""
    environment = dict(os.environ)
    tool = Tool(Cache(cache_root(environment)), environment, Progress())
    with shared_cluster(tool, f"benchmark-{os.getpid()}", nodes, fake_nodes, audit=audit) as cluster:
        cluster.install_kinds(*(CHECKOUT / "crds" / f"{kind.plural}.yaml" for kind in KINDS))
        yield cluster


@contextlib.contextmanager
def operator_process(kubeconfig: Path, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m sweyard_operator` outside of the cluster, ready to work; `variables` go into its environment.

    Raises RuntimeError with the end of its log if it does not come up.
    """
    port = _free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(kubeconfig),
        "POD_NAMESPACE": "default",
        "SWEYARD_HTTP_PORT": str(port),
        "SWEYARD_LEADER_LEASE_SECONDS": "5",
        **variables,
    }
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sweyard_operator"], env=environment, cwd=CHECKOUT, stdout=file, stderr=file
        )
    try:
        _wait_until_listening(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_at = time.monotonic() + _READY_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError(f"the operator did not come up:\n{log.read_text()[-2_000:]}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def load_small_image(cluster: TestCluster) -> str:
    """Builds an image with /bin/sh, if need be, and loads it: the name by which pods have it."""
    _cluster_tool("images", "build", "base", "--checkout", str(CHECKOUT))
    return _cluster_tool("load", "--name", cluster.name, "--pin", "localhost/sweyard/base:dev").split()[-1]


def load_task_images(cluster: TestCluster, dataset: Path) -> dict[str, str]:
    """Builds and loads the images of a data set's tasks: the name by which pods have each, by repository."""
    told = _cluster_tool("images", "tasks", str(dataset), "--checkout", str(CHECKOUT))
    built = dict(line.split() for line in told.splitlines())
    loaded = _cluster_tool("load", "--name", cluster.name, "--pin", *built.values()).split()
    return dict(zip(built, loaded, strict=True))


def _cluster_tool(*arguments: str) -> str:
    command = [sys.executable, "-m", "sweyard_cluster", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
