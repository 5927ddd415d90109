"""The operator process against a real API server; the test plays kubelet and holders."""

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from tests.operator.pool.real_world import IMAGE, Process, RealWorld

from sweyard_api.constants import ANNOTATION_HOLDER, API_VERSION, DEMAND_KEY, LABEL_CACHE
from sweyard_cluster.testing import TestCluster
from sweyard_operator.cache_agent.protocol import REPORT_KEY, ImageReport, ImageState, NodeReport, report_name
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.credentials import load_credentials
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import CONFIG_MAPS, LEASES, NETWORK_POLICIES, NODES, PODS, ROLLOUT_POOLS, name_of
from sweyard_operator.transport import HttpTransport

pytestmark = pytest.mark.apiserver

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def namespace(kinds: TestCluster) -> Iterator[str]:
    name = f"pool-{random.Random().randrange(16**8):08x}"
    kinds.make_namespace(name)
    yield name
    kinds.remove_namespace(name)


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


@pytest_asyncio.fixture
async def ready_nodes(world: RealWorld) -> AsyncIterator[None]:
    """node-a, node-b and node-c, which take no pods by themselves: they have room for none."""
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    made = [
        await world.cluster.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{letter}"}, "status": status}
        )
        for letter in "abc"
    ]
    yield
    for node in made:
        await world.cluster.delete(Deletion(NODES, "", name_of(node), node["metadata"]["uid"]))


@pytest.mark.usefixtures("ready_nodes")
async def test_sandboxes_prefer_the_nodes_that_report_their_image(world: RealWorld) -> None:
    for node, state in (("node-a", ImageState.CACHED), ("node-b", ImageState.CACHED), ("node-c", ImageState.PULLING)):
        said = NodeReport(node=node, images={IMAGE: ImageReport(state=state)})
        # As its agent writes it, but for the owner, for want of which the garbage collector would take the report.
        labels = {LABEL_CACHE: "c", LABEL_ROLE: ROLE_REPORT}
        metadata = {"name": report_name("c", node), "namespace": world.namespace, "labels": labels}
        data = {REPORT_KEY: said.model_dump_json(exclude_defaults=True)}
        await world.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
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
        degraded = await world.condition("Degraded")
        return degraded.get("reason") == "Forbidden" and "restricted" in degraded["message"]

    await world.until(is_named)
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
