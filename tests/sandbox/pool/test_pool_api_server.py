"""The pool client against a real API server."""

import asyncio
import json
import random
import uuid
from collections.abc import Iterator

import pytest
from tests.sandbox.pool_object import make_pool

from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiError
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool

pytestmark = pytest.mark.apiserver


class Pods:
    """Pods whose status the test writes, for want of a kubelet."""

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, input_text=input_text)

    def make(self, count: int, *, first: int = 0, ready: bool = True) -> None:
        names = [f"p-{number}" for number in range(first, first + count)]
        for name in names:
            self.cluster.api.call("POST", self.path("pods"), self._build(name))
            if ready:
                status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
                self.cluster.api.call("PATCH", self.path("pods", name, "status"), status, "merge-patch+json")

    def path(self, *parts: str) -> str:
        return "/".join((f"/api/v1/namespaces/{self.namespace}", *parts))

    def holders(self) -> list[str]:
        items = self.cluster.api.get(self.path("pods"))["items"]
        return sorted(item["metadata"]["annotations"]["sweyard.dev/holder"] for item in items)

    def _build(self, name: str) -> dict[str, object]:
        metadata = {"name": name, "labels": {"sweyard.dev/pool": "p"}, "annotations": {"sweyard.dev/holder": ""}}
        spec = {"schedulerName": "nobody", "containers": [{"name": "sandbox", "image": "i:1"}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def pods(api_server: TestCluster) -> Iterator[Pods]:
    namespace = f"pool-{uuid.uuid4().hex[:8]}"
    api_server.make_namespace(namespace)
    make_pool(api_server, namespace, "p")
    yield Pods(api_server, namespace)
    api_server.remove_namespace(namespace)


async def connect(pods: Pods, holder: str, lease_seconds: int = 30) -> Pool:
    return await Pool.connect(
        namespace=pods.namespace,
        name="p",
        credentials=load_kubeconfig(pods.cluster.kubeconfig),
        environment={},
        holder=holder,
        lease_seconds=lease_seconds,
        rng=random.Random(1),
    )


async def test_holders_race_and_every_pod_goes_to_one(pods: Pods) -> None:
    await asyncio.to_thread(pods.make, 12)
    async with await connect(pods, "a") as first, await connect(pods, "b") as second:
        claims = [pool.acquire_pod("i:1", deadline_seconds=30) for pool in [first, second] * 6]
        claimed = await asyncio.gather(*claims)
        assert len({pod.uid for pod in claimed}) == 12
        assert await asyncio.to_thread(pods.holders) == ["a"] * 6 + ["b"] * 6
        with pytest.raises(ClaimTimeoutError, match=r"12 claimed"):
            await first.acquire_pod("i:1", deadline_seconds=0.5)
    assert await asyncio.to_thread(pods.holders) == []


async def test_a_claim_clears_the_record_of_fields_and_does_not_need_one(pods: Pods) -> None:
    """Once cleared it stays so, whoever writes; a recycled sandbox is claimed without one."""
    await asyncio.to_thread(pods.make, 1)

    def records() -> int:
        pod = pods.cluster.api.get(pods.path("pods", "p-0"))
        return len(pod["metadata"].get("managedFields", ()))

    assert await asyncio.to_thread(records) > 0
    async with await connect(pods, "a") as first, await connect(pods, "b") as second:
        await first.acquire_pod("i:1", deadline_seconds=30)
        await asyncio.to_thread(
            pods.kubectl, "annotate", "--overwrite", "pod", "p-0", "sweyard.dev/holder=", "sweyard.dev/recycled=1"
        )
        assert await asyncio.to_thread(records) == 0
        assert (await second.acquire_pod("i:1", deadline_seconds=30)).name == "p-0"


async def test_batches_that_race_for_all_there_is_end_with_one_whole_and_one_with_nothing(pods: Pods) -> None:
    await asyncio.to_thread(pods.make, 8)
    async with await connect(pods, "a") as first, await connect(pods, "b") as second:
        batches = [pool.acquire_pods(["i:1"] * 8, deadline_seconds=10) for pool in (first, second)]
        ended = await asyncio.gather(*batches, return_exceptions=True)
        assert sorted(isinstance(batch, ClaimTimeoutError) for batch in ended) == [False, True]
        assert len(set(await asyncio.to_thread(pods.holders))) == 1


async def test_a_pod_that_is_not_running_is_told_of_only_to_who_asks(pods: Pods) -> None:
    async with await connect(pods, "holder") as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=60))
        await asyncio.to_thread(pods.make, 1, ready=False)
        assert "1 starting" in (await pool.explain_waiting("i:1")).message
        assert not waiting.done()
        await asyncio.to_thread(pods.make, 1, first=1)
        assert (await waiting).name == "p-1"


async def test_a_claim_that_took_effect_without_an_answer_is_given_back(pods: Pods) -> None:
    """Another process of the holder's name made it: to the operator it looks held by a live holder."""
    await asyncio.to_thread(pods.make, 2)
    async with await connect(pods, "holder") as pool:
        await asyncio.to_thread(pods.kubectl, "annotate", "--overwrite", "pod", "p-0", "sweyard.dev/holder=holder")
        await asyncio.to_thread(pods.kubectl, "wait", "--for=delete", "pod/p-0", "--timeout=60s")
        assert (await pool.acquire_pod("i:1", deadline_seconds=30)).name == "p-1"


async def test_lease_and_demand_come_and_go(pods: Pods) -> None:
    async with await connect(pods, "holder") as pool:
        await pool.announce(["i:1", "i:2"])
        lease = json.loads(await asyncio.to_thread(pods.kubectl, "get", "lease", "holder", "-o", "json"))
        assert lease["metadata"]["labels"] == {"sweyard.dev/pool": "p"}
        assert lease["spec"]["leaseDurationSeconds"] == 30
        demand = json.loads(await asyncio.to_thread(pods.kubectl, "get", "configmap", "holder", "-o", "json"))
        assert json.loads(demand["data"]["demand.json"]) == {"images": ["i:1", "i:2"]}
        assert demand["metadata"]["ownerReferences"][0]["uid"] == lease["metadata"]["uid"]
    assert "holder" not in await asyncio.to_thread(pods.kubectl, "get", "lease", "-o", "name")


async def test_a_lease_is_renewed_until_somebody_takes_it_away(pods: Pods) -> None:
    async with await connect(pods, "holder", lease_seconds=3) as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=60))
        first = await asyncio.to_thread(pods.kubectl, "get", "lease", "holder", "-o", "jsonpath={.spec.renewTime}")
        await asyncio.sleep(3)
        assert first != await asyncio.to_thread(
            pods.kubectl, "get", "lease", "holder", "-o", "jsonpath={.spec.renewTime}"
        )
        await asyncio.to_thread(pods.kubectl, "delete", "lease", "holder")
        with pytest.raises(InfrastructureError) as caught:
            await waiting
        assert caught.value.reason is FailureReason.LEASE_LOST


async def test_a_lease_of_the_same_name_by_another_stops_the_first(pods: Pods) -> None:
    async with await connect(pods, "holder", lease_seconds=3) as pool:
        waiting = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=60))
        await asyncio.to_thread(pods.kubectl, "delete", "lease", "holder")
        async with await connect(pods, "holder"):
            with pytest.raises(InfrastructureError) as caught:
                await waiting
            assert caught.value.reason is FailureReason.LEASE_LOST
        assert pool.holder == "holder"


async def test_lease_and_demand_go_with_their_pool(pods: Pods) -> None:
    async with await connect(pods, "holder") as pool:
        await pool.announce(["i:1"])
        await asyncio.to_thread(pods.kubectl, "delete", "rolloutpool", "p")
        for kind in ("lease", "configmap"):
            await asyncio.to_thread(pods.kubectl, "wait", "--for=delete", f"{kind}/holder", "--timeout=60s")


async def test_a_pool_that_does_not_exist_is_named(pods: Pods) -> None:
    await asyncio.to_thread(pods.kubectl, "delete", "rolloutpool", "p")
    with pytest.raises(ApiError, match=r'rolloutpools\.sweyard\.dev "p" not found'):
        await connect(pods, "holder")
