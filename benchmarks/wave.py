# ruff: noqa: A005  -- nobody imports this module, and the standard one is about sound files
"""A wave of sandboxes on a real kubelet, against a plain Deployment of the same pods.

    python -m benchmarks.wave --sandboxes 512                  # one round at 512
    python -m benchmarks.wave --sandboxes 128 --rounds 3       # medians of three

Runs a cluster of its own (one real node; Linux, root), or the one of $KUBECONFIG with an operator in it. In each round
the pool and the Deployment are made from nothing, in turns, each on a node with no pods of the other left. Then
`--attempts` claims go through the pool's slots (claim, one command, release), to see how long slots lie idle. The last
line is JSON. With `--recycle` as many go through the slots of a pool that recycles, told as `recycled_...`.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import running_operator
from benchmarks.own_cluster import load_small_image, own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.warm_pool import create_pool, delete_deployment, time_deployment, time_pool, wait_until_warm

from sweyard_api.constants import LABEL_POOL
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient
from sweyard_sandbox.pool.pool import Pool, find_credentials, pool_path

_POLL_SECONDS = 0.5
_DEADLINE_SECONDS = 1_800.0
_QUIET_SECONDS = 5.0
_COMMAND = "/bin/true"


async def measure(arguments: argparse.Namespace, image: str) -> dict[str, Any]:
    """All rounds, then the turnover."""
    api = ApiClient(find_credentials(os.environ))
    try:
        pools, deployments = [], []
        for number in range(arguments.rounds):
            async with fresh_namespace(api) as namespace:
                deployments.append(await time_deployment(api, namespace, arguments.sandboxes, image=image))
                await delete_deployment(api, namespace)
                await _wait_until_quiet(api)
            async with fresh_namespace(api) as namespace:
                pools.append(await time_pool(api, namespace, arguments.sandboxes, image=image))
                if number == arguments.rounds - 1:
                    turnover = await turn_over(api, namespace, image, arguments)
                await _empty(api, namespace)
                await _wait_until_quiet(api)
            print(f"Deployment {deployments[-1]:.1f} s, pool {pools[-1]:.1f} s", flush=True)
        if arguments.recycle:
            recycled = await turn_over_recycled(api, image, arguments)
            turnover |= {f"recycled_{key}": value for key, value in recycled.items()}
        ready, deployment = statistics.median(pools), statistics.median(deployments)
        return {
            "sandboxes": arguments.sandboxes,
            "rounds": arguments.rounds,
            "ready_s": round(ready, 1),
            "deployment_s": round(deployment, 1),
            "ratio": round(ready / deployment, 3),
            **turnover,
            "left_over": await _count_pods(api),
        }
    finally:
        await api.close()


async def turn_over(api: ApiClient, namespace: str, image: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Attempts that follow each other through the pool's slots; idle is all slot time that no attempt has."""
    slots = min(arguments.slots, arguments.sandboxes)
    patch = {"spec": {"replicas": slots, "warm": []}}
    await api.request("PATCH", pool_path(namespace, POOL), body=patch, content_type=MERGE_PATCH)
    while len(await _pods(api, namespace)) > slots:
        await asyncio.sleep(_POLL_SECONDS)
    busy: list[float] = []
    async with await Pool.connect(namespace=namespace, name=POOL, rng=random.Random(0)) as pool:
        left = arguments.attempts

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                async with pool.claim(image, deadline_seconds=_DEADLINE_SECONDS) as sandbox:
                    claimed_at = time.monotonic()
                    await sandbox.run(_COMMAND, timeout_seconds=60)
                    await asyncio.sleep(max(0.0, claimed_at + arguments.attempt_seconds - time.monotonic()))
                    busy.append(time.monotonic() - claimed_at)

        began = time.monotonic()
        await pool.announce([image] * arguments.attempts)
        await asyncio.gather(*(work() for _ in range(slots)))
        seconds = time.monotonic() - began
    print(f"{len(busy)} attempts through {slots} slots: {seconds:.1f} s", flush=True)
    return {
        "attempts": len(busy),
        "slots": slots,
        "turnover_s": round(seconds, 1),
        "slot_idle_fraction": round(1.0 - sum(busy) / (slots * seconds), 3),
    }


async def turn_over_recycled(api: ApiClient, image: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same through sandboxes that are reset in place; `count` of them were."""
    slots = min(arguments.slots, arguments.sandboxes)
    async with fresh_namespace(api) as namespace:
        await create_pool(api, namespace, slots, slots, image=image, recycle="verified")
        await wait_until_warm(api, namespace, slots)
        figures = await turn_over(api, namespace, image, arguments)
        status = (await api.request("GET", pool_path(namespace, POOL))).get("status") or {}
        await _empty(api, namespace)
        await _wait_until_quiet(api)
    return {**figures, "count": status.get("recycled", 0)}


async def _empty(api: ApiClient, namespace: str) -> None:
    patch = {"spec": {"replicas": 0, "warm": []}}
    await api.request("PATCH", pool_path(namespace, POOL), body=patch, content_type=MERGE_PATCH)


async def _wait_until_quiet(api: ApiClient) -> None:
    while await _count_pods(api):
        await asyncio.sleep(_POLL_SECONDS)
    await asyncio.sleep(_QUIET_SECONDS)


async def _count_pods(api: ApiClient) -> int:
    """Of all pools, in all namespaces."""
    answer = await api.request("GET", "/api/v1/pods", params={"labelSelector": LABEL_POOL})
    return len(answer.get("items") or [])


async def _pods(api: ApiClient, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")).get("items") or []
    return found


@contextmanager
def cluster_and_image(arguments: argparse.Namespace) -> Iterator[str]:
    """$KUBECONFIG as it is, with --image; else a cluster and an operator made for this."""
    if os.environ.get("KUBECONFIG"):
        if not arguments.image:
            raise SystemExit("--image is needed with $KUBECONFIG: name one with /bin/sh that the cluster can pull")
        yield arguments.image
        return
    with own_cluster(nodes=1) as cluster, tempfile.TemporaryDirectory() as folder:
        image = load_small_image(cluster)
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        with running_operator(cluster.kubeconfig, Path(folder) / "operator.log"):
            yield image


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=512, help="that go through the slots at the end")
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--attempt-seconds", type=float, default=5.0, help="how long each attempt holds its sandbox")
    parser.add_argument("--recycle", action="store_true", help="measure the turnover of a pool that recycles, too")
    parser.add_argument("--image", default="", help="with $KUBECONFIG: an image with /bin/sh")
    arguments = parser.parse_args()
    with cluster_and_image(arguments) as image:
        figures = asyncio.run(measure(arguments, image))
    print_figures({"benchmark": "wave", **figures})


if __name__ == "__main__":
    main()
