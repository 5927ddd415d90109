"""The stage of the churn proof: a control plane that breaks on demand, an operator that is kept alive, bystanders."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from benchmarks.operator_process import OperatorProcess
from benchmarks.prove.pod_record import PodRecord
from benchmarks.warm_pool import IMAGE, create_pool

from sweyard_api.constants import LABEL_COMPONENT, LABEL_POOL
from sweyard_cluster.control_plane import API_SERVER, ETCD
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pool import pool_path

POOL = "churn"
BLOCKED_SLOT = 3
DEADLINE_SECONDS = 600.0
_POLL_SECONDS = 0.2
_GLANCE_SECONDS = 0.01
_RETRY_SECONDS = 0.5
_KEPT_SECONDS = 0.3

Answer = TypeVar("Answer")


class World:
    """One pool of `sandboxes` in one namespace. Its cap is one more, since a bystander sits in one of its slots."""

    def __init__(
        self, cluster: TestCluster, operator: OperatorProcess, api: ApiClient, record: PodRecord, sandboxes: int
    ) -> None:
        self.namespace = f"churn-{sandboxes}"
        self.sandboxes = sandboxes
        self.api = api
        self.record = record
        self.num_restarts = 0
        """Of the operator, by itself or by us."""
        self._cluster = cluster
        self._operator = operator
        self._path = pool_path(self.namespace, POOL)
        self.bystanders: dict[str, int] = {}
        """Revision of its creation by `namespace/name`."""

    @property
    def num_own(self) -> int:
        """Pods of the pool that there are, by etcd's word."""
        return self.record.count[self.namespace] - self.num_near

    @property
    def num_created(self) -> int:
        """Pods of the pool that ever were."""
        return self.record.births[self.namespace] - self.num_near

    @property
    def num_near(self) -> int:
        """Bystanders in the pool's own namespace."""
        return sum(pod.startswith(f"{self.namespace}/") for pod in self.bystanders)

    async def prepare(self) -> None:
        """Namespaces, bystanders, and the pool, without a sandbox."""
        for namespace in (self.namespace, f"{self.namespace}-too"):
            await self.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        owner = await self._make_owner()
        ours = {LABEL_POOL: POOL, LABEL_COMPONENT: "sandbox"}
        for name in (f"{POOL}-{BLOCKED_SLOT}", f"{POOL}-007", f"{POOL}-x-1", f"{POOL}-{self.sandboxes + 9}"):
            await self._make_bystander(self.namespace, name, ours)
        await self._make_bystander(self.namespace, f"{POOL}-{self.sandboxes + 10}", ours, [owner])
        await self._make_bystander(self.namespace, "other-1", {LABEL_POOL: POOL})
        await self._make_bystander(f"{self.namespace}-too", f"{POOL}-4", ours)
        await create_pool(self.api, self.namespace, 0, 0, name=POOL)

    async def _make_owner(self) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        found = await self.api.request("POST", path, body={"metadata": {"name": POOL}})
        uid = found["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": POOL, "uid": uid, "controller": True}

    async def _make_bystander(
        self, namespace: str, name: str, labels: dict[str, str], owners: list[dict[str, Any]] | None = None
    ) -> None:
        """Whoever counts pods by label or by name takes it for one of the pool's."""
        metadata = {"name": name, "labels": labels, "ownerReferences": owners or []}
        spec = {"containers": [{"name": "c", "image": IMAGE}], "automountServiceAccountToken": False}
        path = f"/api/v1/namespaces/{namespace}/pods"
        # The account that admission wants comes a moment after its namespace.
        await self.patiently(lambda: self.api.request("POST", path, body={"metadata": metadata, "spec": spec}), (403,))
        await self.until(lambda: f"{namespace}/{name}" in self.record.alive)
        self.bystanders[f"{namespace}/{name}"] = self.record.alive[f"{namespace}/{name}"]

    async def patiently(self, call: Callable[[], Awaitable[Answer]], passing: tuple[int, ...] = ()) -> Answer:
        """The answer, as soon as the API server is able to give one."""
        while True:
            try:
                return await call()
            except UnreachableError:
                await asyncio.sleep(_RETRY_SECONDS)
            except ApiError as error:
                if not error.is_passing and error.status not in (*passing, 429):
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    async def scale(self, replicas: int, warm: int) -> None:
        """Change the pool's spec."""
        spec = {"replicas": replicas, "warm": [{"image": IMAGE, "replicas": warm}] if warm else []}
        body = {"spec": spec}
        await self.patiently(lambda: self.api.request("PATCH", self._path, body=body, content_type=MERGE_PATCH))

    async def status(self) -> dict[str, Any]:
        """Of the pool."""
        found: dict[str, Any] = (await self.patiently(lambda: self.api.request("GET", self._path))).get("status") or {}
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                await asyncio.sleep(_GLANCE_SECONDS)

    async def until_settled(self, *, ready: int, claimed: int) -> None:
        """The pool says so, and etcd has exactly as many pods. Raises TimeoutError with what is there instead."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    status = await self.status()
                    counts = tuple(status.get(name, 0) for name in ("ready", "claimed", "replicas"))
                    if counts == (ready, claimed, ready + claimed) and self.num_own == ready + claimed:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"{ready} ready, {claimed} claimed wanted; {self.num_own} pods, {status}") from None

    async def keep_operator(self) -> None:
        """Start it whenever it is not running, as a kubelet does."""
        while True:
            self.num_restarts += self._operator.start_if_ended()
            await asyncio.sleep(_KEPT_SECONDS)

    def kill_operator(self) -> None:
        """-9; `keep_operator` starts it again."""
        if self._operator.is_running():
            self._operator.kill()

    async def kill_api_server(self) -> None:
        """-9, and started again."""
        parts = self._cluster.tool.parts(self._cluster.tool.spec(self._cluster.name))
        await asyncio.to_thread(parts.processes.stop, API_SERVER, 0)
        await asyncio.to_thread(parts.control_plane.start)

    async def pause_etcd(self, seconds: float) -> None:
        """It does not run for a while, and knows nothing of it."""
        parts = self._cluster.tool.parts(self._cluster.tool.spec(self._cluster.name))
        process = parts.processes.running(ETCD)
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(process.pid, signal.SIGCONT)

    async def delete_pool(self) -> None:
        """And wait until nothing of it is left, in etcd and elsewhere."""
        with suppress(ApiError):
            await self.api.request("DELETE", self._path)
        await self.until(lambda: self.num_own == 0)
