"""What an ImageCache costs the operator: `python -m benchmarks.image_reports --nodes 1000 --images 4578`.

On a control plane of its own with simulated nodes. On each of them the product's own agent, with a container runtime
and a registry in memory, speaks to the API server by the real protocol: it reads its assignment, surveys, reports,
pulls. From no assignment to every image on its nodes, then at rest. Figures:
- `cpu_s` and `peak_rss_mib`: of the operator's process, by the kernel's books, until all is cached;
- `idle_cpu_fraction`: of one core, once nothing changes;
- `largest_bytes`: the largest version of any object that the operator or an agent wrote, as JSON, by watches;
- `assignments_per_node`, `reports_per_node`: times that they were written.
The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.image_world import make_images, make_manifests
from benchmarks.operator_process import OperatorProcess, cpu_seconds, peak_rss_mib
from benchmarks.own_cluster import own_cluster
from benchmarks.pods import fresh_namespace
from benchmarks.written_objects import WrittenObjects

from sweyard_api.constants import API_VERSION, GROUP, IMAGES_KEY, VERSION
from sweyard_api.kinds import IMAGE_CACHE
from sweyard_operator.cache_agent.agent import CacheAgent
from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.cri import HeldImage
from sweyard_operator.cache_agent.node_mailbox import ConfigMapMailbox
from sweyard_operator.cache_agent.ownership import Ownership
from sweyard_operator.cache_agent.registry import Manifest
from sweyard_operator.cache_agent.registry_auth import RegistryAuth
from sweyard_operator.cache_agent.survey import Survey
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.credentials import load_credentials
from sweyard_operator.observe.image_cache import ROLE_ASSIGNMENT, ROLE_REPORT
from sweyard_operator.resources import CONFIG_MAPS, DAEMON_SETS, EVENTS, IMAGE_CACHES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from sweyard_operator.transport import HttpTransport
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig

CACHE, SOURCE = "images", "listed"
_WRITTEN = (IMAGE_CACHES, CONFIG_MAPS, DAEMON_SETS, SERVICE_ACCOUNTS, ROLE_BINDINGS, EVENTS)
_FAMILIES = 10
_PULLS_OF_A_REGISTRY = 2_000
_AT_ONCE = 32
_DEADLINE_SECONDS = 900.0
_IDLE_SECONDS = 15.0


@dataclass(slots=True)
class MemoryNode:
    """Container runtime of one simulated node; every pull succeeds at once."""

    manifests: Mapping[str, Manifest]
    held: dict[str, HeldImage] = field(default_factory=dict)

    async def held_images(self) -> Mapping[str, HeldImage]:
        return self.held

    async def images_in_use(self) -> frozenset[str]:
        return frozenset()

    async def used_bytes(self) -> int:
        return 3 * sum(one.num_bytes for one in self.held.values())

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        manifest = self.manifests[image]
        self.held[image] = HeldImage(manifest.num_bytes or 0, manifest.digest)

    async def remove(self, image: str) -> None:
        self.held.pop(image, None)

    async def marks(self) -> Mapping[str, str]:
        return {}

    async def mark(self, image: str, keeper: str) -> None:
        pass

    async def caches_here(self) -> frozenset[str]:
        return frozenset()

    async def resolve(self, image: str) -> Manifest:
        return self.manifests[image]


@dataclass(slots=True)
class Fleet:
    """The agents of all nodes."""

    agents: list[CacheAgent]

    async def run_round(self) -> None:
        """One pass of each, in no order."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one_pass(agent: CacheAgent) -> None:
            async with turns:
                await agent.run_pass()

        await asyncio.gather(*(one_pass(agent) for agent in random.sample(self.agents, len(self.agents))))


def make_fleet(cluster: Cluster, namespace: str, uid: str, count: int, manifests: Mapping[str, Manifest]) -> Fleet:
    """An agent for each of KWOK's nodes."""
    agents = []
    for index in range(1, count + 1):
        name, node = f"fake-{index:04d}", MemoryNode(manifests)
        mailbox = ConfigMapMailbox(cluster, namespace=namespace, cache=CACHE, cache_uid=uid, node=name)
        survey = Survey(node, time.monotonic)
        ownership = Ownership(f"{namespace}/{CACHE}", time.monotonic)
        agents.append(CacheAgent(name, node, mailbox, PullSecrets(Path("/none")), ownership, survey, time.monotonic))
    return Fleet(agents)


async def make_cache(api: ApiClient, namespace: str, images: Sequence[str], copies: int | str) -> str:
    """With the images in a ConfigMap of the user's; its UID."""
    source = {"metadata": {"name": SOURCE}, "data": {IMAGES_KEY: "\n".join(images)}}
    await api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=source)
    spec = {"imagesFrom": SOURCE, "copies": copies, "maxParallelPullsPerRegistry": _PULLS_OF_A_REGISTRY}
    body = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": CACHE}, "spec": spec}
    made = await api.request("POST", _path(namespace), body=body)
    return str(made["metadata"]["uid"])


def _path(namespace: str, name: str = "") -> str:
    base = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{IMAGE_CACHE.plural}"
    return f"{base}/{name}" if name else base


async def is_ready(api: ApiClient, namespace: str, count: int) -> bool:
    """All images are on their nodes, by the cache's status."""
    status: dict[str, Any] = (await api.request("GET", _path(namespace, CACHE))).get("status") or {}
    return bool(status.get("cached") == count)


async def tell(api: ApiClient, namespace: str) -> str:
    """The cache's figures in words."""
    status = (await api.request("GET", _path(namespace, CACHE))).get("status") or {}
    return ", ".join(f"{status.get(name)} {name}" for name in ("nodes", "cached", "failed", "total"))


async def measure(
    kubeconfig: Path, operator: OperatorProcess, num_nodes: int, num_images: int, copies: int
) -> dict[str, Any]:
    """From nothing to everything cached, then at rest."""
    images = make_images(num_images, num_families=_FAMILIES, seed=0)
    manifests = make_manifests(images)
    api = ApiClient(load_kubeconfig(kubeconfig))
    cluster = Cluster(HttpTransport(load_credentials(kubeconfig)), Contact(time.monotonic), randomness=random.Random(0))
    try:
        async with fresh_namespace(api) as namespace, _watched(cluster, namespace) as written:
            began, before = time.monotonic(), cpu_seconds(operator.pid)
            uid = await make_cache(api, namespace, [image.name for image in images], copies)
            fleet = make_fleet(cluster, namespace, uid, num_nodes, manifests)
            await _fill(api, namespace, fleet, operator, num_images)
            cpu_s, seconds = cpu_seconds(operator.pid) - before, time.monotonic() - began
            await asyncio.sleep(_IDLE_SECONDS)
            before = cpu_seconds(operator.pid)
            await asyncio.sleep(_IDLE_SECONDS)
            idle = (cpu_seconds(operator.pid) - before) / _IDLE_SECONDS
    finally:
        await api.close()
        await cluster.close()
    return {
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu_s, 1),
        "idle_cpu_fraction": round(idle, 3),
        "largest_bytes": written.largest_bytes,
        "assignments_per_node": round(written.num_versions[ROLE_ASSIGNMENT] / num_nodes, 2),
        "reports_per_node": round(written.num_versions[ROLE_REPORT] / num_nodes, 2),
    }


async def _fill(api: ApiClient, namespace: str, fleet: Fleet, operator: OperatorProcess, num_images: int) -> None:
    """Until all is cached. Raises TimeoutError."""
    began, rounds = time.monotonic(), 0
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not await is_ready(api, namespace, num_images):
            operator.check_running()
            await fleet.run_round()
            rounds += 1
            if rounds % 10 == 0:
                print(f"{time.monotonic() - began:.0f} s: {await tell(api, namespace)}", flush=True)


@contextlib.asynccontextmanager
async def _watched(cluster: Cluster, namespace: str) -> AsyncIterator[WrittenObjects]:
    """Of all kinds that operator and agents write for a cache."""
    written = WrittenObjects()
    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(written.follow(cluster, kind, namespace)) for kind in _WRITTEN]
        yield written
        for watch in watches:
            watch.cancel()


def run(num_nodes: int, num_images: int, copies: int) -> dict[str, Any]:
    """On a control plane of its own."""
    with tempfile.TemporaryDirectory() as directory, own_cluster(fake_nodes=num_nodes) as cluster:
        log = Path(directory) / "operator.log"
        settings = {"SWEYARD_CACHE_AGENT_IMAGE": "agent:1", "SWEYARD_LEADER_LEASE_SECONDS": "120"}
        operator = OperatorProcess(cluster.kubeconfig, log, **settings)
        operator.start()
        try:
            operator.wait_until_ready()
            figures = asyncio.run(measure(cluster.kubeconfig, operator, num_nodes, num_images, copies))
            figures["peak_rss_mib"] = round(peak_rss_mib(operator.pid))
        finally:
            operator.end()
    return {"nodes": num_nodes, "images": num_images, "copies": copies, **figures}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--images", type=int, default=4_578)
    parser.add_argument("--copies", type=int, default=1)
    arguments = parser.parse_args()
    print_figures({"benchmark": "image_reports", **run(arguments.nodes, arguments.images, arguments.copies)})


if __name__ == "__main__":
    main()
