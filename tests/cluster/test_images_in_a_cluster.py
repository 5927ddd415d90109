"""The product's images, built and run for real."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweyard_cluster.image_builders import Build, choose_builder
from sweyard_cluster.images import build_images, image_tag
from sweyard_cluster.loading import name_in_cluster, push
from sweyard_cluster.testing import TestCluster

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def load(cluster: TestCluster) -> Callable[[str], str]:
    """Build an image of ours and bring it into the cluster; its name for pods."""
    builder = choose_builder(cluster.tool.cache, cluster.tool.progress)

    def build_and_load(name: str) -> str:
        build_images([name], CHECKOUT, cluster.tool.cache, builder, cluster.tool.progress)
        loaded = f"{cluster.tool.spec(cluster.name).addresses.registry}/{name_in_cluster(image_tag(name))}"
        push(builder.source(image_tag(name)), loaded)
        return loaded

    return build_and_load


SLEEP = {"command": ["sleep", "3600"]}


def test_operator_image_runs_without_root(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], load: Callable[[str], str]
) -> None:
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    run_pods("operator", container={"image": load("operator"), "securityContext": restricted, **SLEEP})
    probe = "import os, sweyard_operator.main; print(os.getuid())"
    assert cluster.kubectl("-n", namespace, "exec", "operator", "--", "python", "-c", probe) == "65532\n"


def test_cache_agent_image_has_its_dependencies(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], load: Callable[[str], str]
) -> None:
    run_pods("agent", container={"image": load("cache-agent"), **SLEEP})
    probe = "import grpc, sweyard_operator.cache_agent; print('ok')"
    assert cluster.kubectl("-n", namespace, "exec", "agent", "--", "python", "-c", probe) == "ok\n"


def test_task_image_holds_a_committed_source_tree(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], load: Callable[[str], str], tmp_path: Path
) -> None:
    load("base")
    (tmp_path / "calculator.py").write_text("def add(a, b):\n    return a + b\n")
    tag = "localhost/sweyard/task-calculator:dev"
    builder = choose_builder(cluster.tool.cache, cluster.tool.progress)
    arguments = {"BASE_IMAGE": image_tag("base")}
    builder.build(Build(tag, CHECKOUT / "images/task/Dockerfile", tmp_path, arguments), cluster.tool.progress)
    loaded = f"{cluster.tool.spec(cluster.name).addresses.registry}/{name_in_cluster(tag)}"
    push(builder.source(tag), loaded)
    run_pods("task", container={"image": loaded})
    look = "git status --porcelain && git ls-files && python3 -c 'from calculator import add; print(add(2, 3))'"
    told = cluster.kubectl("-n", namespace, "exec", "task", "--", "sh", "-c", look)
    assert told.splitlines() == ["calculator.py", "5"]


def test_mounted_environment_of_the_checkout_runs_in_a_pod(
    cluster: TestCluster, namespace: str, run_pods: Callable[..., None], load: Callable[[str], str]
) -> None:
    """How a demo does without the trainer's image: `base`, and the host's environment under its own paths."""
    places = {str(CHECKOUT), sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}
    roots = sorted(one for one in places if not any(one != top and Path(one).is_relative_to(top) for top in places))
    volumes = [{"name": f"v{index}", "hostPath": {"path": place}} for index, place in enumerate(roots)]
    mounts = [{"name": f"v{index}", "mountPath": place, "readOnly": True} for index, place in enumerate(roots)]
    run_pods("mounted", container={"image": load("base"), "volumeMounts": mounts, **SLEEP}, spec={"volumes": volumes})
    probe = "import ctypes, sqlite3, ssl, numpy, torch; print(torch.ones(2, 2).sum().item())"
    told = cluster.kubectl("-n", namespace, "exec", "mounted", "--", sys.executable, "-c", probe)
    assert told == "4.0\n"


def test_builder_knows_what_it_has_built(cluster: TestCluster) -> None:
    builder = choose_builder(cluster.tool.cache, cluster.tool.progress)
    build_images(["base"], CHECKOUT, cluster.tool.cache, builder, cluster.tool.progress)
    assert builder.size_bytes(image_tag("base"))
    assert builder.size_bytes("localhost/sweyard/never-built:dev") is None
