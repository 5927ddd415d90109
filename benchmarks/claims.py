"""Claims from a warm pool: an open-loop stream of them, then a burst. Needs only a control plane.

    KUBECONFIG=... python -m benchmarks.claims --pods 1050 --rate 75 --seconds 10 --burst 512

The pods are real objects whose status is written by this program, so that nothing but the claim is measured. Arrivals
are Poisson. Baseline, in the same run: a client without a watch, which lists the free pods for each claim.
"""

import argparse
import asyncio
import os
import random
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.figures import print_figures, summarize_ms
from benchmarks.pods import POOL, fresh_namespace, make_pods
from benchmarks.pool_object import make_pool

from sweyard_api.constants import LABEL_POOL
from sweyard_sandbox.pool.api import JSON_PATCH, ApiClient, ApiError
from sweyard_sandbox.pool.claiming import build_claim_patch
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod
from sweyard_sandbox.pool.pool import Pool, find_credentials

IMAGE = "benchmark/none:1"
_BASELINE_CLAIMS = 30
_DEADLINE_SECONDS = 120.0


async def claim(pool: Pool, seconds: list[float]) -> SandboxPod:
    """One timed claim."""
    began = time.perf_counter()
    pod = await pool.acquire_pod(IMAGE, deadline_seconds=_DEADLINE_SECONDS)
    seconds.append(time.perf_counter() - began)
    return pod


async def claim_stream(pool: Pool, rng: random.Random, rate: float, length_seconds: float) -> list[float]:
    """Claims that arrive whether or not earlier ones are done."""
    seconds: list[float] = []
    tasks = []
    began, due = time.perf_counter(), rng.expovariate(rate)
    while due < length_seconds:
        await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
        tasks.append(asyncio.create_task(claim(pool, seconds)))
        due += rng.expovariate(rate)
    await asyncio.gather(*tasks)
    return seconds


async def claim_by_listing(api: ApiClient, namespace: str, rng: random.Random, count: int) -> list[float]:
    """The baseline."""
    path, seconds = f"/api/v1/namespaces/{namespace}/pods", []
    for _ in range(count):
        began = time.perf_counter()
        while True:
            answer = await api.request("GET", path, params={"labelSelector": f"{LABEL_POOL}={POOL}"})
            pod = rng.choice([pod for pod in map(parse_pod, answer["items"]) if pod.is_free])
            patch = build_claim_patch(pod.uid, "baseline", datetime.now(UTC))
            try:
                await api.request("PATCH", f"{path}/{pod.name}", body=patch, content_type=JSON_PATCH)
            except ApiError as error:
                if error.status != 422:
                    raise
            else:
                break
        seconds.append(time.perf_counter() - began)
    return seconds


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All three measurements on one pool."""
    api, rng = ApiClient(find_credentials(os.environ)), random.Random(arguments.seed)
    try:
        async with fresh_namespace(api) as namespace:
            await make_pool(api, namespace)
            needed = arguments.burst + _BASELINE_CLAIMS + int(arguments.rate * arguments.seconds * 1.2)
            num_pods = max(arguments.pods, needed)
            await make_pods(api, namespace, IMAGE, num_pods, pretend_ready=True)
            print(f"{num_pods} pods are ready", flush=True)
            async with await Pool.connect(namespace=namespace, name=POOL, rng=rng) as pool:
                baseline = await claim_by_listing(api, namespace, rng, _BASELINE_CLAIMS)
                print(f"baseline: {summarize_ms(baseline)}", flush=True)
                stream = await claim_stream(pool, rng, arguments.rate, arguments.seconds)
                print(f"{len(stream)} claims at {arguments.rate:g}/s: {summarize_ms(stream)}", flush=True)
                burst: list[float] = []
                began = time.perf_counter()
                await asyncio.gather(*(claim(pool, burst) for _ in range(arguments.burst)))
                burst_seconds = time.perf_counter() - began
                print(f"{arguments.burst} claims at once: {burst_seconds:.2f} s", flush=True)
                return {
                    "pods": num_pods,
                    "baseline": summarize_ms(baseline),
                    "stream": {"claims": len(stream), "rate": arguments.rate, **summarize_ms(stream)},
                    "burst": {"claims": arguments.burst, "seconds": round(burst_seconds, 3), **summarize_ms(burst)},
                    "lost_races": pool.num_lost_races,
                }
    finally:
        await api.close()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1050, help="warm at the beginning")
    parser.add_argument("--rate", type=float, default=75.0, help="claims a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--burst", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    print_figures({"benchmark": "claims", **asyncio.run(run(parser.parse_args()))})


if __name__ == "__main__":
    main()
