# ruff: noqa: A005  -- nobody imports this module, and the standard one is about sound files
"""A wave of sandboxes on a real kubelet, against a plain Deployment of the same pods.

    python -m benchmarks.wave --sandboxes 512                  # one round at 512
    python -m benchmarks.wave --sandboxes 128 --rounds 3       # medians of three

Runs a cluster of its own (one real node; Linux, root), or the one of $KUBECONFIG with an operator in it. In each round
the pool and the Deployment are made from nothing, in turns, each on a node with no pods of the other left. Then
`--attempts` claims go through the pool's slots (claim, one command, release), to see how long slots lie idle. The last
line is JSON.
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
from benchmarks.own_cluster import load_small_image, operator_process, own_cluster
from benchmarks.pods import POOL, fresh_namespace

from sweyard_api.constants import API_VERSION, LABEL_POOL
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.sandbox_pod import build_sandbox_pod
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient
from sweyard_sandbox.pool.pool import Pool, find_credentials, pool_path

REQUESTS = {"cpu": "1m", "memory": "8Mi", "ephemeral-storage": "16Mi"}
"""So little that hundreds fit on a node: what is measured is how fast they start."""
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
                deployments.append(await time_deployment(api, namespace, image, arguments.sandboxes))
                await _wait_until_quiet(api)
            async with fresh_namespace(api) as namespace:
                pools.append(await time_pool(api, namespace, image, arguments.sandboxes))
                if number == arguments.rounds - 1:
                    turnover = await turn_over(api, namespace, image, arguments)
                await _empty(api, namespace)
                await _wait_until_quiet(api)
            print(f"Deployment {deployments[-1]:.1f} s, pool {pools[-1]:.1f} s", flush=True)
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


async def time_pool(api: ApiClient, namespace: str, image: str, sandboxes: int) -> float:
    """Seconds until so many sandboxes are Ready."""
    spec = {"replicas": sandboxes, "warm": [{"image": image, "replicas": sandboxes}]}
    spec["template"] = {"resources": {"requests": REQUESTS}}
    body = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": POOL}, "spec": spec}
    began = time.monotonic()
    await api.request("POST", pool_path(namespace, POOL).rpartition("/")[0], body=body)
    await _wait_until_ready(api, namespace, sandboxes, began)
    return time.monotonic() - began


async def time_deployment(api: ApiClient, namespace: str, image: str, replicas: int) -> float:
    """The same pods, but for restartPolicy and deadline, which a Deployment does not allow."""
    template = RolloutPoolSpec.model_validate({"template": {"resources": {"requests": REQUESTS}}})
    owner = {
        "apiVersion": API_VERSION,
        "kind": "RolloutPool",
        "metadata": {"name": POOL, "namespace": namespace, "uid": ""},
    }
    pod = build_sandbox_pod(owner, template, slot=0, image=image)
    pod_spec = {key: value for key, value in pod["spec"].items() if key != "activeDeadlineSeconds"}
    labels = {"app": "baseline"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {**pod_spec, "restartPolicy": "Always"}},
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "baseline"}, "spec": spec}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    began = time.monotonic()
    await api.request("POST", path, body=body)
    await _wait_until_ready(api, namespace, replicas, began)
    seconds = time.monotonic() - began
    await api.request("DELETE", f"{path}/baseline", params={"propagationPolicy": "Foreground"})
    return seconds


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


async def _wait_until_ready(api: ApiClient, namespace: str, count: int, began: float) -> None:
    while sum(map(_is_ready, await _pods(api, namespace))) < count:
        if time.monotonic() - began > _DEADLINE_SECONDS:
            raise TimeoutError(f"{count} pods are not ready after {_DEADLINE_SECONDS:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)


async def _empty(api: ApiClient, namespace: str) -> None:
    patch = {"spec": {"replicas": 0, "warm": []}}
    await api.request("PATCH", pool_path(namespace, POOL), body=patch, content_type=MERGE_PATCH)


async def _wait_until_quiet(api: ApiClient) -> None:
    while await _count_pods(api):
        await asyncio.sleep(_POLL_SECONDS)
    await asyncio.sleep(_QUIET_SECONDS)


async def _count_pods(api: ApiClient) -> int:
    """Of ours, in all namespaces."""
    selectors = (LABEL_POOL, "app=baseline")
    answers = [await api.request("GET", "/api/v1/pods", params={"labelSelector": one}) for one in selectors]
    return sum(len(answer.get("items") or []) for answer in answers)


async def _pods(api: ApiClient, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")).get("items") or []
    return found


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


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
        with operator_process(cluster.kubeconfig, Path(folder) / "operator.log"):
            yield image


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=512, help="that go through the slots at the end")
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--attempt-seconds", type=float, default=5.0, help="how long each attempt holds its sandbox")
    parser.add_argument("--image", default="", help="with $KUBECONFIG: an image with /bin/sh")
    arguments = parser.parse_args()
    with cluster_and_image(arguments) as image:
        figures = asyncio.run(measure(arguments, image))
    print_figures({"benchmark": "wave", **figures})


if __name__ == "__main__":
    main()
