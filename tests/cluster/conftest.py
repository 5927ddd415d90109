"""What tests of real nodes share: a tiny image that serves, fetches and resolves, and namespaces of their own."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.scratch_image import push, scratch_image
from sweyard_cluster.testing import TestCluster

CHECKOUT = Path(__file__).parents[2]
PROBE = Path(__file__).parent / "probe"


@pytest.fixture(scope="session")
def probe_binary(tmp_path_factory: pytest.TempPathFactory, cluster_tool: Tool) -> Path:
    binary = tmp_path_factory.mktemp("probe") / "probe"
    environment = cluster_tool.binaries.go_environment()
    subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "."], cwd=PROBE, env=environment,
                   check=True)  # fmt: skip
    return binary


@pytest.fixture(scope="session")
def probe_image(cluster: TestCluster, probe_binary: Path) -> str:
    """An image in the cluster's registry whose entry point is the probe, serving on port 8080 by default."""
    registry = cluster.tool.spec(cluster.name).addresses.registry
    push(scratch_image({"/probe": probe_binary}, ["/probe", "serve", ":8080"]), registry, "probe", "1")
    return f"{registry}/probe:1"


@pytest.fixture
def namespace(cluster: TestCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"{request.node.name.removeprefix('test_').replace('_', '-')[:50].rstrip('-')}-{uuid.uuid4().hex[:4]}"
    cluster.make_namespace(name)
    yield name
    cluster.remove_namespace(name)


Apply = Callable[..., None]


@pytest.fixture
def apply(cluster: TestCluster, namespace: str) -> Apply:
    def apply_objects(*objects: dict[str, Any]) -> None:
        cluster.kubectl("-n", namespace, "apply", "-f", "-", input_text=yaml.safe_dump_all(objects))

    return apply_objects


RunPods = Callable[..., None]


@pytest.fixture
def run_pods(cluster: TestCluster, namespace: str, probe_image: str, apply: Apply) -> RunPods:
    """Start serving probes of these names, with more of a pod's spec if given, and wait until all are Ready."""

    def start(*names: str, **more: Any) -> None:
        for name in names:
            container = {"name": "probe", "image": probe_image, **more.get("container", {})}
            spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **more.get("spec", {})}
            metadata = {"name": name, "labels": {"app": name}}
            apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pods = [f"pod/{name}" for name in names]
        cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", *pods, "--timeout=120s")

    return start


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def command() -> Command:
    """Run `python -m sweyard_cluster` to its end; must it succeed?"""

    def run(*arguments: str, succeed: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", "sweyard_cluster", *arguments], cwd=CHECKOUT / "cluster",
                              capture_output=True, text=True, check=False, timeout=500)  # fmt: skip
        if succeed:
            assert done.returncode == 0, done.stderr
        return done

    return run
