"""A cluster and an operator process that a benchmark makes for itself and takes down again."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sweyard_api.kinds import KINDS
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.paths import Cache, cache_root
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.terminal import Progress
from sweyard_cluster.testing import TestCluster, shared_cluster

CHECKOUT = Path(__file__).parents[1]


@contextlib.contextmanager
def own_cluster(*, nodes: int = 0, fake_nodes: int = 0, audit: bool = False) -> Iterator[TestCluster]:
    """A fresh cluster with our kinds in it. No real nodes: a control plane alone, which needs no root."""
    environment = dict(os.environ)
    tool = Tool(Cache(cache_root(environment)), environment, Progress())
    with shared_cluster(
        tool, f"benchmark-{os.getpid()}", ClusterRequest(nodes=nodes, fake_nodes=fake_nodes, audit=audit)
    ) as cluster:
        cluster.install_kinds(*(CHECKOUT / "crds" / f"{kind.plural}.yaml" for kind in KINDS))
        yield cluster


def load_small_image(cluster: TestCluster) -> str:
    """Builds an image with /bin/sh, if need be, and loads it: the name by which pods have it."""
    return load_product_image(cluster, "base")


def load_product_image(cluster: TestCluster, name: str) -> str:
    """Builds an image of ours, if need be, and loads it: the name by which pods have it."""
    _cluster_tool("images", "build", name, "--checkout", str(CHECKOUT))
    return _cluster_tool("load", "--name", cluster.name, "--pin", f"localhost/sweyard/{name}:dev").split()[-1]


def load_task_images(cluster: TestCluster, dataset: Path) -> dict[str, str]:
    """Builds and loads the images of a data set's tasks: the name by which pods have each, by repository."""
    told = _cluster_tool("images", "tasks", str(dataset), "--checkout", str(CHECKOUT))
    built = dict(line.split() for line in told.splitlines())
    loaded = _cluster_tool("load", "--name", cluster.name, "--pin", *built.values()).split()
    return dict(zip(built, loaded, strict=True))


def _cluster_tool(*arguments: str) -> str:
    command = [sys.executable, "-m", "sweyard_cluster", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
