"""A real helm, and what the chart renders to."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.testing import TestCluster, shared_cluster

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "sweyard"
RELEASE = ("sweyard", str(CHART), "--namespace", "sweyard-system")


class HelmError(Exception):
    """helm refused; the message is what it said."""


@pytest.fixture(scope="session")
def helm(cluster_tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run helm; returns its standard output. Raises HelmError."""
    cluster_tool.binaries.ensure(["helm"], cluster_tool.progress)
    program = cluster_tool.binaries.path("helm")
    home = tmp_path_factory.mktemp("helm")
    environment = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    environment["HOME"] = str(home)

    def run(*arguments: str, kubeconfig: Path | None = None) -> str:
        where = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        done = subprocess.run(
            [str(program), *arguments, *where], env=environment, capture_output=True, text=True, timeout=120
        )
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., str]) -> Callable[..., list[dict[str, Any]]]:
    """The chart's manifests for some --set arguments."""

    def template(*values: str) -> list[dict[str, Any]]:
        return [document for document in yaml.safe_load_all(helm("template", *RELEASE, *values)) if document]

    return template


@pytest.fixture(scope="session")
def own_api_server(cluster_tool: Tool, session_id: str) -> Iterator[TestCluster]:
    """A control plane of the chart's tests alone: a release owns names of the whole cluster."""
    with shared_cluster(cluster_tool, f"{session_id}-chart", ClusterRequest()) as running:
        yield running
