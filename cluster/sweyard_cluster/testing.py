"""Clusters for test sessions: made by the first worker that asks, removed by the last that leaves.

A worker that dies without leaving does no harm: users are recorded by process, and the next session removes clusters
whose users are all dead.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from . import lifecycle
from .lifecycle import Tool
from .locking import exclusive
from .paths import ClusterPaths
from .processes import ProcessRecord, identify
from .slots import clusters

PREFIX = "test-"


@dataclass(frozen=True)
class TestCluster:
    """A running cluster in a test's hands."""

    __test__ = False

    tool: Tool
    name: str

    @property
    def kubeconfig(self) -> Path:
        return self.tool.cache.cluster(self.name).kubeconfig

    def kubectl(self, *arguments: str, input_text: str | None = None, timeout_seconds: float = 300) -> str:
        """Standard output of kubectl; raises ClusterError with what it said on failure."""
        return self.tool.kubectl(self.name).run(*arguments, input_text=input_text, timeout_seconds=timeout_seconds)

    def install_kinds(self, *files: Path) -> None:
        """Apply CustomResourceDefinitions and wait until the API server serves them."""
        for file in files:
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
        for file in files:
            self.wait_for_kind(yaml.safe_load(file.read_text())["metadata"]["name"])

    def wait_for_kind(self, name: str) -> None:
        """Not by `--for=condition`, which fails at once while the object has no conditions yet."""
        established = "jsonpath={.status.conditions[?(@.type=='Established')].status}=True"
        self.kubectl("wait", f"--for={established}", f"crd/{name}", "--timeout=30s")


@contextlib.contextmanager
def shared_cluster(
    tool: Tool, session: str, nodes: int, fake_nodes: int = 0, *, audit: bool = False
) -> Iterator[TestCluster]:
    """The session's cluster with so many nodes; raises ClusterError where the machine cannot run it."""
    name = f"{PREFIX}{session}-{nodes}"
    paths = tool.cache.cluster(name)
    guard = paths.root.with_name(f".{name}.users.lock")
    remove_abandoned(tool)
    with exclusive(guard):
        enter(paths)
        lifecycle.up(tool, name, nodes, fake_nodes, audit)
    try:
        yield TestCluster(tool, name)
    finally:
        with exclusive(guard):
            leave(paths)
            if not living_users(paths):
                lifecycle.down(tool, name)
                guard.unlink()


@contextlib.contextmanager
def existing_cluster(tool: Tool, name: str) -> Iterator[TestCluster]:
    """A cluster that a person keeps up between sessions; raises ClusterError if it is not there."""
    tool.spec(name)
    yield TestCluster(tool, name)


def enter(paths: ClusterPaths) -> None:
    """Record this process as a user."""
    record = identify(os.getpid())
    assert record is not None
    paths.users.mkdir(parents=True, exist_ok=True)
    (paths.users / str(record.pid)).write_text(json.dumps(dataclasses.asdict(record)))


def leave(paths: ClusterPaths) -> None:
    (paths.users / str(os.getpid())).unlink(missing_ok=True)


def living_users(paths: ClusterPaths) -> list[ProcessRecord]:
    records = [ProcessRecord(**json.loads(path.read_text())) for path in paths.users.glob("*")]
    return [record for record in records if identify(record.pid) == record]


def remove_abandoned(tool: Tool) -> None:
    """Take down the clusters of sessions that were killed."""
    for paths, spec in list(clusters(tool.cache)):
        if not spec.name.startswith(PREFIX):
            continue
        guard = paths.root.with_name(f".{spec.name}.users.lock")
        with exclusive(guard):
            if not living_users(paths):
                lifecycle.down(tool, spec.name)
                guard.unlink()
