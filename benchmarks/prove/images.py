"""Images on real nodes, from a registry that lies: `python -m benchmarks.prove.images` (Linux, root).

On a cluster of its own with two real nodes, agents as a DaemonSet and a budget that each node's runtime is asked about
twice a second:

1. 12 images and 2 without a shell are held by pods alone (mode `pods`), and no container is started twice;
2. 60 images in 6 families, 2 copies, while the registry first answers 429 for some seconds, then fails every fourth
   layer, lacks one image and serves another's layer with a wrong byte; meanwhile an agent is killed in mid-pull and a
   third node joins: 58 are on exactly two nodes, two are told with their reasons;
3. a node loses its power: its copies appear on the nodes that are left;
4. it comes back, is cut off from the network, loses images unheard, and is heard again: no report claims what its
   node's runtime does not list;
5. 60 other images with room for less than both: old ones go, but not one that the agent did not pull;
6. 60 more that are needed sooner, on two nodes: what is needed last goes for them.

The results go into docs/performance.md. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import ALONE, OperatorProcess, free_port
from benchmarks.own_cluster import load_product_image, own_cluster
from benchmarks.pods import fresh_namespace
from benchmarks.prove.image_nodes import AGENT_ROLE, ImageNodes
from benchmarks.prove.image_phases import BARE, COPIES, FAMILIES, HELD, IMAGES, Stage
from benchmarks.prove.layered_images import push_families
from benchmarks.prove.lying_registry import lying_door
from benchmarks.prove.report import Section, write_section

from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig


async def prove(cluster: TestCluster, namespace: str, api: ApiClient) -> dict[str, Any]:
    """Everything, with the operator at work."""
    addresses = cluster.tool.spec(cluster.name).addresses
    old, new, first = [
        await asyncio.to_thread(push_families, addresses.registry, name, FAMILIES, IMAGES, seed)
        for seed, name in enumerate(("old", "new", "first"))
    ]
    foreign = await asyncio.to_thread(push_families, addresses.registry, "foreign", 1, HELD, 3)
    bare = await asyncio.to_thread(push_families, addresses.registry, "bare", 1, BARE, 4, has_shell=False)
    nodes = ImageNodes(cluster, api, namespace)
    sampling = asyncio.create_task(nodes.sample())
    with lying_door(addresses.host, free_port(), addresses.registry) as door:
        stage = Stage(nodes, door)
        try:
            nodes.trust(door.address)
            figures = await stage.hold([*foreign, *bare])
            await nodes.make(images=[], copies=COPIES, maxParallelPullsPerNode=4, maxParallelPullsPerRegistry=6)
            await agents_ready(cluster, namespace)
            figures |= await stage.fill(old)
            figures |= await stage.lose_node(old)
            figures |= await stage.heal_node()
            figures |= await stage.turn_over(old, new, foreign)
            figures |= await stage.put_first(first, new)
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
    if figures["nodes_by_held_image"] != {COPIES: HELD + BARE} or figures["holder_restarts"]:
        found.append(f"held: {figures['nodes_by_held_image']}, with {figures['holder_restarts']} restarts")
    if sorted(figures["reasons"].values()) != ["Corrupt", "NotFound"]:
        found.append(f"reasons: {figures['reasons']}")
    if not figures["door"].get("refused") or figures["door"].get("impatient"):
        found.append(f"the registry's 429 was not met, or not heeded: {figures['door']}")
    if figures["budget_exceeded_bytes"] > 0:
        found.append(f"budget exceeded by {figures['budget_exceeded_bytes']} bytes")
    if figures["agents_killed"] < 1 or figures["collected"] < 1:
        found.append("no agent was killed in mid-pull, or no image was taken from the node that was cut off")
    if figures["false_claims"]:
        found.append(f"{figures['false_claims']} images are claimed by nodes that do not hold them")
    if figures["out_of_order"] or min(figures["kept_of_later"].values()) < 1:
        found.append(f"something that is needed later stayed for it: {figures['kept_of_later']}")
    if not figures["foreign_kept"]:
        found.append("an image that no agent pulled was removed")
    return found


def tell(figures: dict[str, Any]) -> list[str]:
    """Markdown."""
    door = Counter(figures["door"])
    reasons = " and ".join(sorted(figures["reasons"].values()))
    kept = ", ".join(str(count) for count in figures["kept_of_later"].values())
    return [
        f"{HELD + BARE} images, {BARE} of them without a shell, were held by pods alone on {COPIES} nodes after "
        f"{figures['held_s']} s, and no container was started twice. Then "
        f"{IMAGES} images in {FAMILIES} families, {COPIES} copies, two real nodes and a third that joined meanwhile, "
        f"an agent killed in mid-pull. The registry answered 429 {door['refused']} times, and nobody came back "
        f"before its Retry-After was over; it failed {door['failed']} layers, served one corrupt layer and lacked one "
        f"image: {IMAGES - 2} images were on exactly {COPIES} nodes {figures['fill_s']} s after the third came, the "
        f"two others told as {reasons}. A node that lost its power was replaced on the others in {figures['lost_s']} s "
        f"({figures['pulled_mib']} MiB pulled). It came back with its disk (all cached after {figures['healed_s']} s), "
        f"was cut off and lost {figures['collected']} images unheard (all cached {figures['heard_again_s']} s after it "
        f"was heard again): no report claimed what its node did not hold. With room for less than both, {IMAGES} other "
        f"images took the old ones' place in {figures['turn_over_s']} s, and {IMAGES} that were needed sooner that of "
        f"those needed last, of which the nodes kept the first {kept}. In {figures['samples']} samples of each node's "
        f"runtime no budget was exceeded."
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
        operator = OperatorProcess(cluster.kubeconfig, log, SWEYARD_CACHE_AGENT_IMAGE=image, **ALONE)
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
