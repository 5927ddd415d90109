"""Real nodes as the proof of images sees them: by their runtimes' own words, beside the agents."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from sweyard_api.constants import API_VERSION, GROUP, LABEL_CACHE, VERSION
from sweyard_api.kinds import IMAGE_CACHE
from sweyard_cluster.node import Node
from sweyard_cluster.node_config import CONTAINERD_SOCKET
from sweyard_cluster.testing import TestCluster
from sweyard_operator.cache_agent.cri import CriRuntime
from sweyard_operator.cache_agent.protocol import ImageState
from sweyard_operator.observe.image_cache import read_reports
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient, UnreachableError

CACHE = "images"
_SAMPLE_SECONDS = 0.5
_POLL_SECONDS = 1.0
_LOOK_SECONDS = 0.2
AGENT_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "sweyard-cache-agent"},
    "rules": [
        {"apiGroups": [GROUP], "resources": ["imagecaches"], "verbs": ["get", "report"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
    ],
}


@dataclass
class ImageNodes:
    """One ImageCache on the cluster's real nodes."""

    cluster: TestCluster
    api: ApiClient
    namespace: str
    name: str = CACHE
    budget_bytes: int | None = None
    exceeded_bytes: int = 0
    """The most that any node had above its budget at any sample."""
    num_samples: int = 0
    _runtimes: dict[str, CriRuntime] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        """With power."""
        spec = self.cluster.tool.spec(self.cluster.name)
        return [node for node in self.cluster.tool.parts(spec).nodes if node.powered]

    def trust(self, registry: str) -> None:
        """Let the nodes' runtimes pull from `registry` by plain HTTP."""
        for node in self.nodes:
            file = node.files.state / "registries" / registry / "hosts.toml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                f'server = "http://{registry}"\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n'
            )

    def runtime(self, node: Node) -> CriRuntime:
        """Its containerd. A node that was without power has a new one."""
        running = node.processes.running(node.name)
        assert running is not None
        socket = f"/proc/{running.pid}/root{CONTAINERD_SOCKET}"
        return self._runtimes.setdefault(socket, CriRuntime.connect(socket))

    async def used_bytes(self) -> dict[str, int]:
        """By node, of those that answer."""
        found = {}
        for node in self.nodes:
            try:
                found[node.name] = await self.runtime(node).used_bytes()
            except grpc.aio.AioRpcError as error:
                print(f"{node.name} does not answer: {error.code()}", flush=True)
        return found

    async def sample(self) -> None:
        """For ever."""
        while True:
            if self.budget_bytes is not None:
                used = await self.used_bytes()
                self.exceeded_bytes = max([self.exceeded_bytes, *(had - self.budget_bytes for had in used.values())])
                self.num_samples += 1
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def copies(self, images: Iterable[str]) -> Counter[int]:
        """How many images are on how many nodes, by what the runtimes list."""
        held = [await self.runtime(node).held_images() for node in self.nodes]
        return Counter(sum(image in one for one in held) for image in images)

    async def claims(self, state: ImageState = ImageState.CACHED) -> dict[str, set[str]]:
        """By node: images that its report says are in this state there."""
        path, query = f"/api/v1/namespaces/{self.namespace}/configmaps", {"labelSelector": f"{LABEL_CACHE}={self.name}"}
        reports = read_reports((await self._read(path, query))["items"])
        return {
            node: {image for image, said in report.images.items() if said.state is state}
            for node, report in reports.items()
        }

    async def restarts(self) -> int:
        """Of all containers of all pods of the cache."""
        path, query = f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": f"{LABEL_CACHE}={self.name}"}
        pods = (await self._read(path, query))["items"]
        return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", ()))

    async def until_pulling(self, node: str, seconds: float) -> None:
        """Until this node's agent says that it pulls. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not (await self.claims(ImageState.PULLING)).get(node):
                await asyncio.sleep(_LOOK_SECONDS)

    async def kill_agent(self, node: str) -> int:
        """Its processes, by -9: their number."""
        uid = (await self._read(self._path(self.name)))["metadata"]["uid"]
        told = {f"SWEYARD_CACHE_UID={uid}".encode(), f"NODE_NAME={node}".encode()}
        killed = 0
        for process in Path("/proc").glob("[0-9]*"):
            # It may end while it is looked at, and some tell their environment to nobody, root included.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if told <= set((process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed += 1
        return killed

    async def make(self, **spec: Any) -> None:
        """The ImageCache."""
        body = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": self.name}, "spec": spec}
        await self.api.request("POST", self._path(), body=body)

    async def edit(self, **spec: Any) -> None:
        """Of its spec."""
        if "diskBudget" in spec:
            self.budget_bytes = int(spec["diskBudget"])
        await self.api.request("PATCH", self._path(self.name), body={"spec": spec}, content_type=MERGE_PATCH)

    async def delete(self) -> None:
        """With all that it made."""
        await self.api.request("DELETE", self._path(self.name))

    async def status(self) -> dict[str, Any]:
        """As the operator wrote it, if it speaks of the present spec."""
        cache = await self._read(self._path(self.name))
        status: dict[str, Any] = cache.get("status") or {}
        return status if status.get("observedGeneration") == cache["metadata"]["generation"] else {}

    async def until(self, what: str, seconds: float, **figures: int) -> float:
        """Until the status has these figures: seconds that it took. Raises TimeoutError."""
        loop, status = asyncio.get_running_loop(), dict[str, Any]()
        began = loop.time()
        try:
            async with asyncio.timeout(seconds):
                while not status or any(status.get(name) != count for name, count in figures.items()):
                    await asyncio.sleep(_POLL_SECONDS)
                    status = await self.status()
        except TimeoutError as error:
            raise TimeoutError(f"{what}: not in {seconds:.0f} s: {status}") from error
        print(f"{what}: {loop.time() - began:.0f} s", flush=True)
        return loop.time() - began

    async def close(self) -> None:
        """All connections."""
        for runtime in self._runtimes.values():
            await runtime.close()

    async def _read(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """However long an API server on a busy machine takes: what is read has a deadline of its own."""
        while True:
            try:
                found: dict[str, Any] = await self.api.request("GET", path, params=dict(query or {}))
            except UnreachableError as error:
                print(f"asked again: {error}", flush=True)
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return found

    def _path(self, name: str = "") -> str:
        base = f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{IMAGE_CACHE.plural}"
        return f"{base}/{name}" if name else base
