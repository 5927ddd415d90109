"""A pool on a real API server, an operator that is a real process, and a test that plays kubelet and holders."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sweyard_api.constants import ANNOTATION_HOLDER, API_VERSION, CONTAINER_SANDBOX, DEMAND_KEY, LABEL_POOL
from sweyard_operator.cluster import Cluster
from sweyard_operator.conditions import rfc3339
from sweyard_operator.errors import NotFoundError
from sweyard_operator.resources import LEASES, PODS, ROLLOUT_POOLS, Manifest, name_of
from sweyard_operator.transport import HttpTransport

IMAGE = "registry.test/task:1"
LEASE_SECONDS = 5


class Process:
    """`python -m sweyard_operator`, from outside the cluster."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, *, leader_seconds: int = 10) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._environment = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "KUBECONFIG": str(kubeconfig),
            "SWEYARD_WATCH_NAMESPACES": namespace,
            "POD_NAMESPACE": namespace,
            "SWEYARD_HTTP_PORT": str(self.port),
            "SWEYARD_LEADER_LEASE_SECONDS": str(leader_seconds),
        }
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sweyard_operator"], env=self._environment, stdout=log, stderr=log
            )

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(30)

    @property
    def log(self) -> str:
        return self._log.read_text()


class RealWorld:
    """One namespace with one pool."""

    def __init__(self, cluster: Cluster, transport: HttpTransport, namespace: str, process: Process) -> None:
        self.cluster = cluster
        self.transport = transport
        self.namespace = namespace
        self.process = process
        self.created: set[str] = set()
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._dead: list[asyncio.Task[None]] = []

    async def create_pool(self, **spec: Any) -> None:
        metadata = {"name": "pool", "namespace": self.namespace}
        await self.cluster.create(
            {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": metadata, "spec": spec}
        )

    async def status(self) -> dict[str, Any]:
        pool = await self.cluster.get(ROLLOUT_POOLS, self.namespace, "pool")
        return dict(pool.get("status") or {})

    async def condition(self, kind: str) -> dict[str, Any]:
        conditions = (await self.status()).get("conditions") or ()
        return next((dict(entry) for entry in conditions if entry["type"] == kind), {})

    async def pods(self) -> list[Manifest]:
        pods, _ = await self.cluster.list(PODS, self.namespace)
        return pods

    async def play_kubelet(self) -> None:
        """Every pod becomes Ready at once."""
        while True:
            for pod in await self.pods():
                self.created.add(pod["metadata"]["uid"])
                if pod["status"]["phase"] == "Pending":
                    with contextlib.suppress(NotFoundError):
                        await self._make_ready(pod)
            await asyncio.sleep(0.1)

    async def _make_ready(self, pod: Manifest) -> None:
        now = rfc3339(self.cluster.contact.server_time())
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [
                {
                    "name": CONTAINER_SANDBOX,
                    "image": IMAGE,
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
            ],
        }
        path = PODS.path(self.namespace, name_of(pod), "status")
        await self.patch(path, {"status": status}, "application/strategic-merge-patch+json", accepted=(200, 404))

    async def patch(self, path: str, body: Any, content_type: str, *, accepted: tuple[int, ...] = (200,)) -> int:
        reply = await self.transport.request(
            "PATCH", path, params={}, body=json.dumps(body).encode(), content_type=content_type
        )
        assert reply.status in accepted, reply.body
        return reply.status

    async def bind(self, pod: Manifest, node: str) -> None:
        """As the scheduler does."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(self.namespace, name_of(pod), "binding")
        body = json.dumps(binding).encode()
        reply = await self.transport.request("POST", path, params={}, body=body, content_type="application/json")
        assert reply.status == 201, reply.body

    async def claim(self, pod: Manifest, holder: str) -> int:
        """The client's patch: 200 for a claim, 422 for one that came too late."""
        path = "/metadata/annotations/" + ANNOTATION_HOLDER.replace("/", "~1")
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": pod["metadata"]["uid"]},
            {"op": "test", "path": path, "value": ""},
            {"op": "replace", "path": path, "value": holder},
        ]
        return await self.patch(
            PODS.path(self.namespace, name_of(pod)), operations, "application/json-patch+json", accepted=(200, 422)
        )

    async def join(self, holder: str, demand: list[str]) -> None:
        labels = {LABEL_POOL: "pool"}
        metadata = {"name": holder, "namespace": self.namespace, "labels": labels}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS}
        await self.cluster.create(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        )
        data = {DEMAND_KEY: json.dumps({"images": demand})}
        await self.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        self._renewals[holder] = asyncio.create_task(self._renew(holder))

    async def _renew(self, holder: str) -> None:
        for count in range(10_000):
            renewed = {"spec": {"renewTime": f"2030-01-01T00:00:00.{count:06d}Z"}}
            await self.cluster.merge_patch(LEASES, self.namespace, holder, renewed)
            await asyncio.sleep(1.0)

    def die(self, holder: str) -> None:
        self._dead.append(self._renewals.pop(holder))
        self._dead[-1].cancel()

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not await holds():
            assert time.monotonic() < deadline, f"status {await self.status()}\n{self.process.log[-4_000:]}"
            await asyncio.sleep(0.1)

    async def until_ready(self, count: int) -> None:
        async def holds() -> bool:
            return (await self.status()).get("ready") == count

        await self.until(holds)

    async def close(self) -> None:
        """A request that is cancelled has yet to close its connection."""
        tasks = [*self._renewals.values(), *self._dead]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
