"""Clusters of a session, one of each kind for each of its workers, made on first use and removed at the end.

SWEYARD_TEST_API_SERVER and SWEYARD_TEST_CLUSTER name clusters of `python -m sweyard_cluster up --name NAME` to use
instead, which saves their start while tests are written.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.paths import Cache, cache_root
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.terminal import Progress
from sweyard_cluster.testing import TestCluster, existing_cluster, shared_cluster

CRDS = Path(__file__).parents[1] / "crds"

# A busy machine is no failure. What is gated judges the change and not the day's luck, so it tries the same few
# examples each time; `--hypothesis-profile=search` tries new ones, and many (`python -m benchmarks.prove properties`).
_untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _untimed, derandomize=True, max_examples=50)
settings.register_profile("search", _untimed, max_examples=2_000)
settings.load_profile("fixed")


def pytest_configure() -> None:
    """A shell makes what it starts in the background ignore Ctrl-C, and so would all programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster_tool() -> Tool:
    environment = dict(os.environ)
    return Tool(Cache(cache_root(environment)), environment, Progress())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, tests of one folder go to one worker: they share what is dear to make."""
    for item in items:
        folder = "/".join(item.nodeid.split("/")[:2])
        item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(scope="session")
def session_id() -> str:
    """Another in each xdist worker: tests that remove the chart or its kinds would disturb those of the other."""
    return uuid.uuid4().hex[:8]


ClusterOf = Callable[[str, int], AbstractContextManager[TestCluster]]


@pytest.fixture(scope="session")
def cluster_of(cluster_tool: Tool, session_id: str) -> ClusterOf:
    def choose(variable: str, nodes: int) -> AbstractContextManager[TestCluster]:
        if kept := os.environ.get(variable):
            return existing_cluster(cluster_tool, kept)
        return shared_cluster(cluster_tool, session_id, ClusterRequest(nodes=nodes))

    return choose


@pytest.fixture(scope="session")
def api_server(cluster_of: ClusterOf) -> Iterator[TestCluster]:
    """A real control plane without nodes: `.kubeconfig` and `.kubectl(*arguments)`."""
    with cluster_of("SWEYARD_TEST_API_SERVER", 0) as running:
        yield running


@pytest.fixture(scope="session")
def kinds(api_server: TestCluster) -> TestCluster:
    """The API server, with our kinds."""
    api_server.install_kinds(*sorted(CRDS.glob("*.yaml")))
    return api_server


@pytest.fixture(scope="session")
def cluster(cluster_of: ClusterOf) -> Iterator[TestCluster]:
    """A real cluster with one node; as root."""
    with cluster_of("SWEYARD_TEST_CLUSTER", 1) as running:
        yield running
