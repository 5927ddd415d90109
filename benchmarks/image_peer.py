"""An ImageCache against the usual way, a DaemonSet that lists every image as an init container (Linux, root).

    python -m benchmarks.image_peer --images 60 --nodes 3

On real nodes of a cluster of its own, from one registry, one after the other in one run: the DaemonSet, an
ImageCache with a copy on every node, and one with a single copy of each image. Each gets images of its own, alike in
number, sizes and shared layers, so that none finds layers that another brought. The agents are up before
their clock starts. `peer_seconds_ratio` and `peer_bytes_ratio` are the cache's seconds and bytes (copies: 1) for one of
the DaemonSet's, `peer_all_seconds_ratio` its seconds with copies: all. `budget_exceeded_bytes` is the most that a
node's runtime had above its disk budget at any of two samples a second. Then a wave of sandboxes, one of each image of
that cache: `warm_start_fraction` is the share that went to a node which had theirs, `warm_wave_s` the time until all
are Ready, `cold_wave_s` that of as many images that no node has, `wave_seconds_ratio` the one for the other. The last
line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import OperatorProcess, free_port
from benchmarks.own_cluster import load_product_image, own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.prove.image_nodes import AGENT_ROLE, CACHE, ImageNodes
from benchmarks.prove.layered_images import BASE_BYTES, MIB, OWN_BYTES, push_families
from benchmarks.prove.lying_registry import Door, lying_door
from benchmarks.warm_pool import TEMPLATE, wait_until_warm

from sweyard_api.constants import API_VERSION, LABEL_POOL
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool_object import pool_path

IMAGES, NODES, FAMILIES = 60, 3, 4
SETS = ("peer", "all", "one", "cold")
_END = ["/bin/sh", "-c", "exit 0"]
_DISK_FACTOR = 3
"""Bytes on disk for each compressed one, at most."""
_DEADLINE_SECONDS = 600.0
_SETTLE_SECONDS = 12.0
"""containerd looks at its snapshots each ten seconds."""


def daemon_set(images: list[str]) -> dict[str, Any]:
    """Each image is pulled because a container of it runs, for an instant."""
    labels = {"app": "peer"}
    containers = [{"name": f"image-{i}", "image": image, "command": _END} for i, image in enumerate(images)]
    # What comes after them fails, in vain: only the init containers count.
    spec = {
        "initContainers": containers,
        "containers": [{"name": "main", "image": images[0], "command": _END}],
        "terminationGracePeriodSeconds": 0,
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": "peer"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


async def run_peer(api: ApiClient, namespace: str, images: list[str], num_nodes: int) -> float:
    """Seconds until each image has run on each node."""
    base, loop = f"/apis/apps/v1/namespaces/{namespace}/daemonsets", asyncio.get_running_loop()
    began = loop.time()
    await api.request("POST", base, body=daemon_set(images))
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not await _all_ran(api, namespace, len(images), num_nodes):
            await asyncio.sleep(0.5)
    seconds = loop.time() - began
    await api.request("DELETE", f"{base}/peer")
    return seconds


async def _all_ran(api: ApiClient, namespace: str, count: int, num_nodes: int) -> bool:
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = (await api.request("GET", path, params={"labelSelector": "app=peer"}))["items"]
    ran = [_num_ended(pod) for pod in pods]
    return len(ran) == num_nodes and all(number == count for number in ran)


def _num_ended(pod: dict[str, Any]) -> int:
    statuses = pod.get("status", {}).get("initContainerStatuses") or ()
    return sum("terminated" in (status.get("state") or {}) for status in statuses)


async def weigh(nodes: ImageNodes, door: Door, seconds: float, before: tuple[int, int]) -> dict[str, float]:
    """Seconds, bytes that left the registry, and bytes that came onto disks since `before`."""
    await asyncio.sleep(_SETTLE_SECONDS)
    pulled, disk = (late - early for late, early in zip(await _stand(nodes, door), before, strict=True))
    return {"seconds": round(seconds, 1), "pulled_mib": round(pulled / MIB), "disk_mib": round(disk / MIB)}


async def _stand(nodes: ImageNodes, door: Door) -> tuple[int, int]:
    return door.seen["bytes"], sum((await nodes.used_bytes()).values())


async def start_wave(api: ApiClient, namespace: str, images: list[str]) -> tuple[float, float]:
    """Of a pool with a sandbox of each image: seconds until all are Ready, and the share whose image was there."""
    warm = [{"image": image, "replicas": 1} for image in images]
    spec = {"replicas": len(images), "warm": warm, "imageCacheRef": CACHE, "template": TEMPLATE}
    body = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": POOL}, "spec": spec}
    began = time.monotonic()
    await api.request("POST", pool_path(namespace, POOL).rpartition("/")[0], body=body)
    async with asyncio.timeout(_DEADLINE_SECONDS):
        await wait_until_warm(api, namespace, len(images))
    seconds = time.monotonic() - began
    fraction = (await api.request("GET", pool_path(namespace, POOL)))["status"]["warmStartFraction"]
    await api.request("DELETE", pool_path(namespace, POOL))
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while await _num_sandboxes(api, namespace):
            await asyncio.sleep(0.5)
    return seconds, float(fraction)


async def _num_sandboxes(api: ApiClient, namespace: str) -> int:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return len((await api.request("GET", path, params={"labelSelector": f"{LABEL_POOL}={POOL}"}))["items"])


async def measure(cluster: TestCluster, num_images: int) -> dict[str, Any]:
    """All, one after the other."""
    addresses = cluster.tool.spec(cluster.name).addresses
    api = ApiClient(load_kubeconfig(cluster.kubeconfig))
    try:
        async with fresh_namespace(api) as namespace:
            with lying_door(addresses.host, free_port(), addresses.registry) as door:
                nodes = ImageNodes(cluster, api, namespace)
                nodes.trust(door.address)
                sets = {}
                for seed, name in enumerate(SETS):
                    pushed = await asyncio.to_thread(
                        push_families, addresses.registry, name, FAMILIES, num_images, seed
                    )
                    sets[name] = [f"{door.address}/{one.name}" for one in pushed]
                figures = await _race(cluster, api, nodes, door, sets)
                await nodes.close()
                return figures
    finally:
        await api.close()


async def _race(
    cluster: TestCluster, api: ApiClient, nodes: ImageNodes, door: Door, sets: dict[str, list[str]]
) -> dict[str, Any]:
    before = await _stand(nodes, door)
    peer = await weigh(nodes, door, await run_peer(api, nodes.namespace, sets["peer"], len(nodes.nodes)), before)
    print(f"peer: {peer}", flush=True)
    await nodes.make(images=[], copies=1)
    wait = ("-n", nodes.namespace, "rollout", "status", f"daemonset/{CACHE}-cache-agent")
    await asyncio.sleep(2.0)
    await asyncio.to_thread(cluster.kubectl, *wait)
    await asyncio.sleep(_SETTLE_SECONDS)
    compressed = FAMILIES * BASE_BYTES + len(sets["one"]) * OWN_BYTES
    budget = max((await nodes.used_bytes()).values()) + 2 * _DISK_FACTOR * compressed
    await nodes.edit(diskBudget=str(budget))
    figures: dict[str, Any] = {"peer": peer}
    async with _sampled(nodes):
        await _fill(nodes, door, sets, figures)
    warm_s, fraction = await start_wave(api, nodes.namespace, sets["one"])
    cold_s, _ = await start_wave(api, nodes.namespace, sets["cold"])
    return {
        **figures,
        "warm_start_fraction": fraction,
        "warm_wave_s": round(warm_s, 1),
        "cold_wave_s": round(cold_s, 1),
        "wave_seconds_ratio": round(warm_s / cold_s, 3),
        "budget_exceeded_bytes": nodes.exceeded_bytes,
        "peer_seconds_ratio": round(figures["one"]["seconds"] / peer["seconds"], 3),
        "peer_all_seconds_ratio": round(figures["all"]["seconds"] / peer["seconds"], 3),
        "peer_bytes_ratio": round(figures["one"]["pulled_mib"] / peer["pulled_mib"], 3),
        "peer_disk_ratio": round(figures["one"]["disk_mib"] / peer["disk_mib"], 3),
    }


@contextlib.asynccontextmanager
async def _sampled(nodes: ImageNodes) -> AsyncIterator[None]:
    """Their disks are watched."""
    sampling = asyncio.create_task(nodes.sample())
    try:
        yield
    finally:
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling


async def _fill(nodes: ImageNodes, door: Door, sets: dict[str, list[str]], figures: dict[str, Any]) -> None:
    """By the cache: first with a copy on every node, then with one."""
    for name, copies in (("all", "all"), ("one", 1)):
        before = await _stand(nodes, door)
        await nodes.edit(images=sets[name], copies=copies)
        seconds = await nodes.until(name, _DEADLINE_SECONDS, cached=len(sets[name]), failed=0, nodes=len(nodes.nodes))
        figures[name] = await weigh(nodes, door, seconds, before)
        print(f"{name}: {figures[name]}", flush=True)


def require_root(module: str) -> None:
    """End with a sentence where it is not root's."""
    if os.geteuid() != 0:
        raise SystemExit(f"python -m {module} needs root: it makes real nodes")


def run(num_images: int, num_nodes: int) -> dict[str, Any]:
    """On a cluster of its own."""
    with tempfile.TemporaryDirectory() as directory, own_cluster(nodes=num_nodes) as cluster:
        image = load_product_image(cluster, "cache-agent")
        cluster.kubectl("apply", "-f", "-", input_text=json.dumps(AGENT_ROLE))
        operator = OperatorProcess(
            cluster.kubeconfig, Path(directory) / "operator.log", SWEYARD_CACHE_AGENT_IMAGE=image
        )
        operator.start()
        try:
            operator.wait_until_ready()
            return asyncio.run(measure(cluster, num_images))
        finally:
            operator.end()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--nodes", type=int, default=NODES)
    arguments = parser.parse_args()
    require_root("benchmarks.image_peer")
    figures = run(arguments.images, arguments.nodes)
    print_figures({"benchmark": "image_peer", "images": arguments.images, "nodes": arguments.nodes, **figures})


if __name__ == "__main__":
    main()
