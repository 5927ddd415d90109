"""Images on real nodes, from a registry that lies: `python -m benchmarks.prove.images` (Linux, root).

On a cluster of its own with two real nodes, agents as a DaemonSet and a budget that each node's runtime is asked about
twice a second:

1. 60 images in 6 families, 2 copies, a third node joining in the middle, while the registry first answers 429 for some
   seconds, then fails every fourth layer, lacks one image and serves another's layer with a wrong byte: 58 are on
   exactly two nodes, two are told with their reasons;
2. a node loses its power: its copies appear on the nodes that are left;
3. 60 other images with room for less than both: old ones go, but not one that the agent did not pull.

The results go into docs/performance.md. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import OperatorProcess, free_port
from benchmarks.own_cluster import load_product_image, own_cluster
from benchmarks.pods import fresh_namespace
from benchmarks.prove.image_nodes import AGENT_ROLE, ImageNodes
from benchmarks.prove.layered_images import MIB, Pushed, push_families
from benchmarks.prove.lying_registry import Door, Faults, lying_door
from benchmarks.prove.report import Section, write_section

from sweyard_cluster import faults, lifecycle
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig

IMAGES, FAMILIES, COPIES = 60, 6, 2
ROOM_BYTES = 260 * MIB
_REFUSED_SECONDS = 8.0
_DEADLINE_SECONDS = 400.0


async def fill(nodes: ImageNodes, door: Door, pushed: list[Pushed], cluster: TestCluster) -> dict[str, Any]:
    """All at once: a lying registry, and a node that joins."""
    corrupt, missing = pushed[7], pushed[8]
    door.faults = Faults(
        refuse_for_seconds=_REFUSED_SECONDS,
        fail_every=4,
        slow_seconds=0.02,
        corrupt=frozenset({corrupt.own_layer}),
        missing=frozenset({"/manifests/" + missing.name.rpartition(":")[2]}),
    )
    images = [f"{door.address}/{one.name}" for one in pushed]
    budget = max((await nodes.used_bytes()).values()) + ROOM_BYTES
    await nodes.edit(images=images, diskBudget=str(budget))
    await asyncio.to_thread(lifecycle.up, cluster.tool, cluster.name, 3)
    nodes.trust(door.address)
    seconds = await nodes.until("filled", _DEADLINE_SECONDS, cached=IMAGES - 2, failed=2, nodes=3)
    status = await nodes.status()
    reasons = {entry["image"].rpartition("/")[2]: entry["reason"] for entry in status["failures"]}
    return {
        "fill_s": round(seconds, 1),
        "nodes_by_image": dict(sorted((await nodes.copies(images)).items())),
        "reasons": dict(sorted(reasons.items())),
        "door": dict(door.seen),
    }


async def lose_node(nodes: ImageNodes, door: Door, pushed: list[Pushed], cluster: TestCluster) -> dict[str, Any]:
    """Its copies go to the others."""
    before = door.seen["bytes"]
    spec = cluster.tool.spec(cluster.name)
    await asyncio.to_thread(faults.fail_node, cluster.tool, spec, "node3", faults.POWER)
    seconds = await nodes.until("node lost", _DEADLINE_SECONDS, cached=IMAGES - 2, failed=2, nodes=2)
    counts = await nodes.copies(f"{door.address}/{one.name}" for one in pushed)
    pulled = round((door.seen["bytes"] - before) / MIB)
    return {
        "lost_s": round(seconds, 1),
        "nodes_by_image_after_loss": dict(sorted(counts.items())),
        "pulled_mib": pulled,
    }


async def turn_over(
    nodes: ImageNodes, door: Door, old: list[Pushed], new: list[Pushed], foreign: str
) -> dict[str, Any]:
    """Other images are wanted; the foreign one stays."""
    door.faults = Faults()
    runtime = nodes.runtime(nodes.nodes[0])
    await runtime.pull(foreign, None, timeout_seconds=60.0)
    images = [f"{door.address}/{one.name}" for one in new]
    await nodes.edit(images=images)
    seconds = await nodes.until("turned over", _DEADLINE_SECONDS, cached=IMAGES, failed=0, nodes=2)
    left = await nodes.copies(f"{door.address}/{one.name}" for one in old)
    return {
        "turn_over_s": round(seconds, 1),
        "old_copies_left": sum(count * number for count, number in left.items()),
        "foreign_kept": foreign in await runtime.held_images(),
    }


async def prove(cluster: TestCluster, namespace: str, api: ApiClient) -> dict[str, Any]:
    """Everything, with the operator at work."""
    addresses = cluster.tool.spec(cluster.name).addresses
    old = await asyncio.to_thread(push_families, addresses.registry, "old", FAMILIES, IMAGES, 0)
    new = await asyncio.to_thread(push_families, addresses.registry, "new", FAMILIES, IMAGES, 1)
    other = await asyncio.to_thread(push_families, addresses.registry, "foreign", 1, 1, 2)
    nodes = ImageNodes(cluster, api, namespace)
    sampling = asyncio.create_task(nodes.sample())
    with lying_door(addresses.host, free_port(), addresses.registry) as door:
        try:
            nodes.trust(door.address)
            await nodes.make(copies=COPIES, maxParallelPullsPerNode=4, maxParallelPullsPerRegistry=6)
            await agents_ready(cluster, namespace)
            figures = await fill(nodes, door, old, cluster)
            figures |= await lose_node(nodes, door, old, cluster)
            figures |= await turn_over(nodes, door, old, new, f"{door.address}/{other[0].name}")
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
            await nodes.close()
    return {**figures, "budget_exceeded_bytes": nodes.exceeded_bytes, "samples": nodes.num_samples}


async def agents_ready(cluster: TestCluster, namespace: str) -> None:
    """Their image is on the nodes and counts before the budget is set."""
    daemon_set = "daemonset/images-cache-agent"
    for arguments in (("wait", "--for=create", daemon_set, "--timeout=60s"), ("rollout", "status", daemon_set)):
        await asyncio.to_thread(cluster.kubectl, "-n", namespace, *arguments)
    # containerd looks at its snapshots each ten seconds.
    await asyncio.sleep(12.0)


def find_breaches(figures: dict[str, Any]) -> list[str]:
    """What does not hold."""
    found = []
    for name in ("nodes_by_image", "nodes_by_image_after_loss"):
        if figures[name] != {0: 2, COPIES: IMAGES - 2}:
            found.append(f"{name}: {figures[name]}")
    if sorted(figures["reasons"].values()) != ["Corrupt", "NotFound"]:
        found.append(f"reasons: {figures['reasons']}")
    if figures["budget_exceeded_bytes"] > 0:
        found.append(f"budget exceeded by {figures['budget_exceeded_bytes']} bytes")
    if not figures["foreign_kept"]:
        found.append("an image that no agent pulled was removed")
    return found


def tell(figures: dict[str, Any]) -> list[str]:
    """Markdown."""
    door = figures["door"]
    reasons = " and ".join(sorted(figures["reasons"].values()))
    return [
        f"{IMAGES} images in {FAMILIES} families, {COPIES} copies, two real nodes and a third that joined meanwhile. "
        f"The registry answered 429 {door['refused']} times, failed {door['failed']} layers, served one corrupt layer "
        f"and lacked one image: {IMAGES - 2} images were on exactly {COPIES} nodes after {figures['fill_s']} s, the "
        f"two others told as {reasons}. A node that lost its power was replaced on the others in {figures['lost_s']} s "
        f"({figures['pulled_mib']} MiB pulled). With room for less than both, {IMAGES} other images took the old ones' "
        f"place in {figures['turn_over_s']} s. In {figures['samples']} samples of each node's runtime no budget was "
        "exceeded."
    ]


async def run(cluster: TestCluster) -> dict[str, Any]:
    api = ApiClient(load_kubeconfig(cluster.kubeconfig))
    try:
        async with fresh_namespace(api) as namespace:
            return await prove(cluster, namespace, api)
    finally:
        await api.close()


def main() -> None:
    """Prove, write docs/performance.md, print; exit code 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.images", description=__doc__)
    parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("python -m benchmarks.prove.images needs root: it makes real nodes")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, own_cluster(nodes=2) as cluster:
        image = load_product_image(cluster, "cache-agent")
        cluster.kubectl("apply", "-f", "-", input_text=json.dumps(AGENT_ROLE))
        log = Path(directory) / "operator.log"
        operator = OperatorProcess(cluster.kubeconfig, log, SWEYARD_CACHE_AGENT_IMAGE=image)
        operator.start()
        try:
            operator.wait_until_ready()
            figures = asyncio.run(run(cluster))
        except TimeoutError:
            print(log.read_text()[-4_000:], flush=True)
            raise
        finally:
            operator.end()
    print(figures, flush=True)
    if breaches := find_breaches(figures):
        raise SystemExit("\n".join(breaches))
    write_section(Section("Images on real nodes", "python -m benchmarks.prove images", tell(figures)))
    print_figures({"benchmark": "prove.images", **figures, "seconds": round(time.monotonic() - began)})


if __name__ == "__main__":
    main()
