"""The whole product on a real cluster: chart, operator, cache, sandboxes and trainer from their images."""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from rich.console import Console
from tests.e2e.installation import Installation
from tests.sandbox.tasks.small_package import unittest_suite, write_repository

from sweyard_cli.demo.cluster import bring_images
from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.demo.cluster_install import SYSTEM_NAMESPACE, chart_values, install_chart
from sweyard_cli.demo.cluster_targets import Native
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making, run

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks of a small package, and two held out."""
    work = tmp_path_factory.mktemp("dataset")
    repository = write_repository(work / "gauge", "gauge", unittest_suite("gauge"))
    options = Options(quotas=Quotas(train=8, heldout=2))
    return run(Making(name="gauge", repositories=[repository], cache=work / "cache", options=options))


@pytest.fixture(scope="session")
def commands(cluster: TestCluster) -> Commands:
    """kubectl and helm, for the session's cluster."""
    return commands_for(cluster)


@pytest.fixture(scope="session")
def installation(cluster: TestCluster, dataset: Path) -> Iterator[Installation]:
    """The chart on the session's cluster; removed at the end, with the kinds."""
    with installed(cluster, dataset) as made:
        yield made


@pytest.fixture(scope="module")
def three_nodes(
    cluster_of: Callable[[str, int], AbstractContextManager[TestCluster]], dataset: Path
) -> Iterator[Installation]:
    """The same on a cluster with three nodes."""
    with cluster_of("SWEYARD_TEST_THREE_NODES", 3) as cluster, installed(cluster, dataset) as made:
        yield made


def commands_for(cluster: TestCluster) -> Commands:
    paths = [str(cluster.tool.binaries.path(name).parent) for name in ("kubectl", "helm")]
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": os.pathsep.join([*paths, os.environ["PATH"]]),
    }
    return Commands(Console(quiet=True), environment)


def uninstall_chart(commands: Commands) -> None:
    """The release, and then the kinds, which it keeps, with all objects of them."""
    commands.run("helm", "uninstall", "sweyard", "--namespace", SYSTEM_NAMESPACE, "--wait")
    kinds = ("trainingruns", "rolloutpools", "imagecaches")
    commands.run("kubectl", "delete", "crd", *(f"{kind}.sweyard.dev" for kind in kinds))


@contextlib.contextmanager
def installed(cluster: TestCluster, dataset: Path) -> Iterator[Installation]:
    commands = commands_for(cluster)
    images, task_images = bring_images(commands, Native(cluster.name), "base", dataset, CHECKOUT)
    install_chart(commands, CHECKOUT / "charts" / "sweyard", chart_values(images, CHECKOUT))
    made = Installation(cluster, commands, dataset, task_images)
    yield made
    made.remove_namespaces()
    uninstall_chart(commands)


@pytest.fixture(scope="session")
def furnished_once(installation: Installation) -> str:
    """See `furnished`."""
    return installation.make_namespace_with_cache()


@pytest.fixture
def furnished(installation: Installation, furnished_once: str) -> Iterator[str]:
    """A namespace that many runs share, one after the other: with the data set, and its images on the node."""
    installation.check_release()
    yield furnished_once
    installation.clear(furnished_once)
