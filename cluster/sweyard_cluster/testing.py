"""Clusters for test sessions: made by the first worker that asks, removed by the last that leaves.

A worker that dies without leaving does no harm: users are recorded by process, and the next session removes clusters
whose users are all dead.
"""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from . import lifecycle
from .api import Api, ApiError
from .errors import ClusterError
from .lifecycle import Tool
from .locking import exclusive
from .paths import ClusterPaths
from .processes import ProcessRecord, identify
from .spec import ClusterRequest

PREFIX = "test-"
NAMESPACES = "/api/v1/namespaces"
NOT_FOUND = 404
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 60.0
"""For one answer: a machine that runs tests is a busy one."""


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

    @cached_property
    def api(self) -> Api:
        """Plain requests. A kubectl for each look takes a fifth of a second of the processor, and what a test waits
        for needs that too."""
        return Api(self.kubeconfig, timeout_seconds=PATIENCE_SECONDS)

    def make_namespace(self, name: str) -> None:
        """One that pods can be made in."""
        self.api.call("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.wait_for(f"{NAMESPACES}/{name}/serviceaccounts/default")

    def remove_namespace(self, name: str) -> None:
        """Without waiting for its end."""
        self.api.call("DELETE", f"{NAMESPACES}/{name}")

    def install_kinds(self, *files: Path) -> None:
        """Apply CustomResourceDefinitions and wait until the API server serves them."""
        definitions = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in files]
        names = [str(definition["metadata"]["name"]) for definition in definitions]
        for name, definition in zip(names, definitions, strict=True):
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=tests&force=true"
            self.api.call("PATCH", path, definition, "apply-patch+yaml")
        for name in names:
            self.wait_for_kind(name)

    def wait_for_kind(self, name: str) -> None:
        """Until it is among what the API server says that it serves."""
        plural, _, group = name.partition(".")
        self.wait_for(f"/apis/{group}")
        served = self.api.get(f"/apis/{group}")["preferredVersion"]["groupVersion"]
        self.wait_for(f"/apis/{served}", lambda found: plural in {one["name"] for one in found["resources"]})

    def wait_for(self, path: str, holds: Callable[[Any], bool] = lambda _: True, seconds: float = 30.0) -> None:
        """Until what is read at `path` exists and is so."""
        give_up_at = time.monotonic() + seconds
        while not self._is_so(path, holds):
            if time.monotonic() > give_up_at:
                raise ClusterError(f"{path} was not as expected within {seconds} s")
            time.sleep(POLL_SECONDS)

    def _is_so(self, path: str, holds: Callable[[Any], bool]) -> bool:
        try:
            return holds(self.api.get(path))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return False
            raise


@contextlib.contextmanager
def shared_cluster(tool: Tool, session: str, wanted: ClusterRequest) -> Iterator[TestCluster]:
    """The session's cluster with so many nodes; raises ClusterError where the machine cannot run it."""
    name = f"{PREFIX}{session}-{wanted.nodes}"
    paths = tool.cache.cluster(name)
    guard = paths.root.with_name(f".{name}.users.lock")
    remove_abandoned(tool)
    with exclusive(guard):
        enter(paths)
        lifecycle.up(tool, name, wanted)
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
    """Take down the clusters of sessions that were killed, and what a killed removal left of one."""
    for name in sorted(path.name for path in tool.cache.clusters.glob(f"{PREFIX}*")):
        paths, guard = tool.cache.cluster(name), tool.cache.clusters / f".{name}.users.lock"
        with exclusive(guard):
            if not living_users(paths):
                lifecycle.down(tool, name)
                guard.unlink()
