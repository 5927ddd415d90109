"""The operator process against a real API server; the test plays kubelet and holders."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from sweyard_api.constants import ANNOTATION_HOLDER, API_VERSION, CONTAINER_SANDBOX, DEMAND_KEY, LABEL_POOL
from sweyard_api.kinds import KINDS
from sweyard_cluster.testing import TestCluster
from sweyard_operator.cache_agent.node_mailbox import ConfigMapMailbox
from sweyard_operator.cache_agent.protocol import ImageReport, ImageState, NodeReport
from sweyard_operator.cluster import Cluster
from sweyard_operator.conditions import rfc3339
from sweyard_operator.contact import Contact
from sweyard_operator.credentials import load_credentials
from sweyard_operator.errors import NotFoundError
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import CONFIG_MAPS, LEASES, NETWORK_POLICIES, PODS, ROLLOUT_POOLS, Manifest, name_of
from sweyard_operator.transport import HttpTransport

pytestmark = pytest.mark.apiserver

IMAGE = "registry.test/task:1"
REPOSITORY = Path(__file__).parents[3]
LEASE_SECONDS = 5


@pytest.fixture(scope="session")
def kinds(api_server: TestCluster) -> TestCluster:
    api_server.install_kinds(*(REPOSITORY / "crds" / f"{kind.plural}.yaml" for kind in KINDS))
    return api_server


class Process:
    """`python -m sweyard_operator`, from outside the cluster."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "SWEYARD_WATCH_NAMESPACES": namespace,
            "POD_NAMESPACE": namespace,
            "SWEYARD_HTTP_PORT": str(self.port),
            "SWEYARD_LEADER_LEASE_SECONDS": "3",
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
        self._renewals.pop(holder).cancel()

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
        for task in self._renewals.values():
            task.cancel()


@pytest.fixture
def namespace(kinds: TestCluster) -> Iterator[str]:
    name = f"pool-{random.Random().randrange(16**8):08x}"
    kinds.kubectl("create", "namespace", name)
    yield name
    kinds.kubectl("delete", "namespace", name, "--wait=false")


@pytest_asyncio.fixture
async def world(kinds: TestCluster, namespace: str, tmp_path: Path) -> AsyncIterator[RealWorld]:
    transport = HttpTransport(load_credentials(kinds.kubeconfig))
    cluster = Cluster(transport, Contact(time.monotonic), randomness=random.Random(0))
    process = Process(kinds.kubeconfig, namespace, tmp_path / "operator.log")
    world = RealWorld(cluster, transport, namespace, process)
    process.start()
    kubelet = asyncio.create_task(world.play_kubelet())
    try:
        yield world
    finally:
        process.end(signal.SIGKILL)
        kubelet.cancel()
        await asyncio.wait([kubelet])
        await world.close()
        await cluster.close()


async def test_pool_fills_is_claimed_reaped_and_deleted(world: RealWorld) -> None:
    await world.create_pool(replicas=10, warm=[{"image": IMAGE, "replicas": 6}])
    await world.until_ready(6)
    assert (await world.condition("Ready"))["status"] == "True"
    assert len(world.created) == 6
    # The defaults of the API server are no reason to apply the policy again.
    policies, _ = await world.cluster.list(NETWORK_POLICIES, world.namespace)
    assert [policy["spec"]["policyTypes"] for policy in policies] == [["Ingress", "Egress"]]

    await world.join("dead", [])
    await world.join("alive", [])
    first, second, third = (await world.pods())[:3]
    assert await world.claim(first, "dead") == 200
    assert await world.claim(first, "alive") == 422
    assert await world.claim(second, "dead") == 200
    assert await world.claim(third, "alive") == 200
    await world.until_ready(6)
    world.die("dead")

    async def is_reaped() -> bool:
        holders = [pod["metadata"]["annotations"][ANNOTATION_HOLDER] for pod in await world.pods()]
        return "dead" not in holders and await world.cluster.find(LEASES, world.namespace, "dead") is None

    await world.until(is_reaped)
    assert third["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await world.pods()}
    assert await world.cluster.find(CONFIG_MAPS, world.namespace, "alive") is not None

    world.die("alive")
    pool = await world.cluster.get(ROLLOUT_POOLS, world.namespace, "pool")
    await world.cluster.delete(Deletion(ROLLOUT_POOLS, world.namespace, "pool", pool["metadata"]["uid"]))

    async def is_empty() -> bool:
        leases = [name_of(lease) for lease in (await world.cluster.list(LEASES, world.namespace))[0]]
        policies, _ = await world.cluster.list(NETWORK_POLICIES, world.namespace)
        return not await world.pods() and not policies and leases == ["sweyard-operator"]

    await world.until(is_empty)


async def test_demand_is_served_and_shrinks_by_itself(world: RealWorld) -> None:
    await world.create_pool(replicas=4, unclaimedTTLSeconds=10)
    await world.join("holder", [IMAGE] * 9)
    await world.until_ready(4)
    assert (await world.status())["demand"] == 9
    await world.cluster.merge_patch(
        CONFIG_MAPS, world.namespace, "holder", {"data": {DEMAND_KEY: json.dumps({"images": [IMAGE]})}}
    )
    await world.until_ready(1)


async def test_sandboxes_prefer_the_nodes_that_report_their_image(world: RealWorld) -> None:
    for node, state in (("node-a", ImageState.CACHED), ("node-b", ImageState.CACHED), ("node-c", ImageState.PULLING)):
        said = NodeReport(node=node, images={IMAGE: ImageReport(state=state)})
        mailbox = ConfigMapMailbox(world.cluster, namespace=world.namespace, cache="c", cache_uid="u", node=node)
        await mailbox.write_report(said)
    await world.create_pool(replicas=2, warm=[{"image": IMAGE, "replicas": 2}], imageCacheRef="c")

    async def all_prefer() -> bool:
        """Those that were made before the operator heard of the reports are made anew."""
        pods = await world.pods()
        early = [pod for pod in pods if "affinity" not in pod["spec"]]
        for pod in early:
            await world.cluster.delete(Deletion(PODS, world.namespace, name_of(pod), pod["metadata"]["uid"]))
        return len(pods) == 2 and not early

    await world.until(all_prefer)
    await world.until_ready(2)
    for pod, node in zip(await world.pods(), ("node-b", "node-c"), strict=True):
        terms = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        preferred = {field["values"][0] for term in terms for field in term["preference"]["matchFields"]}
        assert preferred == {"node-a", "node-b"}
        await world.bind(pod, node)

    async def is_told() -> bool:
        return (await world.status()).get("warmStartFraction") == 0.5

    await world.until(is_told)


async def test_a_killed_operator_comes_back_and_makes_no_double(world: RealWorld) -> None:
    await world.create_pool(replicas=60, warm=[{"image": IMAGE, "replicas": 50}])
    for _ in range(3):

        async def has_begun(count: int = len(world.created)) -> bool:
            return len(world.created) > count or len(world.created) == 50

        await world.until(has_begun)
        assert world.process.end(signal.SIGKILL) == -signal.SIGKILL
        world.process.start()
    await world.until_ready(50)
    assert len(world.created) == 50


async def test_an_operator_asked_to_end_gives_its_lease_back(world: RealWorld) -> None:
    await world.create_pool(replicas=2, warm=[{"image": IMAGE, "replicas": 1}])
    await world.until_ready(1)
    assert world.process.end(signal.SIGTERM) == 0
    lease = await world.cluster.get(LEASES, world.namespace, "sweyard-operator")
    assert lease["spec"].get("holderIdentity", "") == ""
    world.process.start()
    await world.until_ready(1)


async def test_a_quota_is_quoted_in_the_condition_and_lifted_without_help(world: RealWorld) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": world.namespace},
        "spec": {"hard": {"pods": "3"}},
    }
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas"
    reply = await world.transport.request("POST", path, params={}, body=json.dumps(quota).encode())
    assert reply.status == 201

    async def is_enforced() -> bool:
        reply = await world.transport.request("GET", f"{path}/team", params={})
        return bool(json.loads(reply.body).get("status", {}).get("hard"))

    deadline = time.monotonic() + 30
    while not await is_enforced():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await world.create_pool(replicas=8, warm=[{"image": IMAGE, "replicas": 8}])

    async def is_quoted() -> bool:
        return (await world.condition("Degraded")).get("reason") == "QuotaExceeded"

    await world.until(is_quoted)
    message = (await world.condition("Degraded"))["message"]
    assert "exceeded quota: team" in message
    assert "pods=3" in message
    await world.transport.request("DELETE", f"{path}/team", params={})
    await world.until_ready(8)


async def test_a_namespace_that_enforces_restricted_pods_is_named(world: RealWorld, kinds: TestCluster) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    kinds.kubectl("label", "namespace", world.namespace, level)
    await world.create_pool(replicas=2, warm=[{"image": IMAGE, "replicas": 1}])

    async def is_named() -> bool:
        return (await world.condition("Degraded")).get("reason") == "Forbidden"

    await world.until(is_named)
    assert "restricted" in (await world.condition("Degraded"))["message"]
    # With a user id the template keeps to the restricted level.
    patch = {"spec": {"template": {"runAsUser": 1000}}}
    await world.cluster.merge_patch(ROLLOUT_POOLS, world.namespace, "pool", patch)
    await world.until_ready(1)


async def test_endpoints_tell_of_health_and_figures(world: RealWorld, kinds: TestCluster) -> None:
    await world.create_pool(replicas=2, warm=[{"image": IMAGE, "replicas": 2}])
    await world.until_ready(2)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{world.process.port}") as session:
        for path in ("/healthz", "/readyz"):
            async with session.get(path) as reply:
                assert (reply.status, await reply.text()) == (200, "ok")
        async with session.get("/metrics") as reply:
            text = await reply.text()
    labels = f'namespace="{world.namespace}",pool="pool"'
    assert f"sweyard_pool_sandboxes_created_total{{{labels}}} 2.0" in text
    assert f'sweyard_pool_sandboxes{{{labels},state="ready"}} 2.0' in text
    # The scale subresource speaks of the same pods.
    scale = kinds.kubectl("get", "--raw", f"/apis/{API_VERSION}/namespaces/{world.namespace}/rolloutpools/pool/scale")
    assert json.loads(scale)["status"]["selector"] == "sweyard.dev/pool=pool,sweyard.dev/component=sandbox"
