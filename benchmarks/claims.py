"""Claims from a warm pool: an open-loop stream of them, then bursts.

    python -m benchmarks.claims --warm 1050 --rate 75 --seconds 10 --burst 512

Runs a control plane of its own with simulated nodes and an operator, or uses those of $KUBECONFIG. The pool is made by
the operator. Arrivals are Poisson, from several holders with a Lease and a watch each. Two streams of them: in the
first each sandbox is held for as long as an attempt of half a minute would, so that claims are all there is; in the
second it is given back at once, so that the operator deletes and makes as many pods a second as are claimed (keys that
begin with `turnover_`). Baselines, in the same run: as many bare patches sent at once by a client that knows all pods
beforehand; a Deployment of as many pods. The last line is JSON.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare_patches import patch_at_once
from benchmarks.figures import print_figures, summarize_ms
from benchmarks.operator_process import running_operator
from benchmarks.own_cluster import own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.warm_pool import (
    IMAGE,
    count_created_pods,
    delete_deployment,
    time_deployment,
    time_pool,
    wait_until_warm,
)

from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import find_credentials
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.pool import Pool

_DEADLINE_SECONDS = 120.0
_QUIET_SECONDS = 3.0
_NODES = 20


class Stopwatch:
    """Claims and releases, timed."""

    def __init__(self) -> None:
        self.claim_seconds: list[float] = []
        self.release_seconds: list[float] = []
        self.claimed: list[str] = []

    async def claim(self, pool: Pool) -> SandboxPod:
        began = time.perf_counter()
        pod = await pool.acquire_pod(IMAGE, deadline_seconds=_DEADLINE_SECONDS)
        self.claim_seconds.append(time.perf_counter() - began)
        self.claimed.append(pod.uid)
        return pod

    async def release(self, pool: Pool, pod: SandboxPod) -> None:
        began = time.perf_counter()
        await pool.release_pod(pod)
        self.release_seconds.append(time.perf_counter() - began)

    async def attempt(self, pool: Pool, hold_seconds: float) -> None:
        pod = await self.claim(pool)
        await asyncio.sleep(hold_seconds)
        await self.release(pool, pod)


@dataclass(frozen=True)
class Arrivals:
    """Poisson, `rate` a second for `seconds`; each holds its sandbox for `hold_seconds`."""

    rate: float
    seconds: float
    hold_seconds: float


async def stream(watch: Stopwatch, pools: Sequence[Pool], rng: random.Random, arrivals: Arrivals) -> None:
    """Claims that arrive whether or not earlier ones are done."""
    tasks: list[asyncio.Task[None]] = []
    began, due = time.perf_counter(), rng.expovariate(arrivals.rate)
    while due < arrivals.seconds:
        await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
        pool = pools[len(tasks) % len(pools)]
        tasks.append(asyncio.create_task(watch.attempt(pool, arrivals.hold_seconds)))
        due += rng.expovariate(arrivals.rate)
    await asyncio.gather(*tasks)


async def burst(watch: Stopwatch, pools: Sequence[Pool], count: int) -> float:
    """Seconds until all of `count` claims made at once are done."""
    began = time.perf_counter()
    pods = await asyncio.gather(*(watch.claim(pools[number % len(pools)]) for number in range(count)))
    seconds = time.perf_counter() - began
    await asyncio.gather(*(watch.release(pools[number % len(pools)], pod) for number, pod in enumerate(pods)))
    return seconds


class Bench:
    """One pool in one namespace."""

    def __init__(self, api: ApiClient, namespace: str, arguments: argparse.Namespace) -> None:
        self.api = api
        self.namespace = namespace
        self.arguments = arguments
        self.rng = random.Random(arguments.seed)
        self.claimed: list[str] = []
        self.num_bare = 0

    async def settle(self) -> None:
        """Until the pool is as at the beginning and the machine is quiet."""
        await wait_until_warm(self.api, self.namespace, self.arguments.warm)
        await asyncio.sleep(_QUIET_SECONDS)

    async def time_readiness(self) -> dict[str, float]:
        """The pool against a Deployment."""
        deployment = await time_deployment(self.api, self.namespace, self.arguments.warm)
        await delete_deployment(self.api, self.namespace)
        await asyncio.sleep(_QUIET_SECONDS)
        before = await count_created_pods(self.api)
        pool = await time_pool(self.api, self.namespace, self.arguments.warm)
        print(f"{self.arguments.warm} pods: pool {pool:.1f} s, Deployment {deployment:.1f} s", flush=True)
        ratio = round(pool / deployment, 3)
        return {"before": before, "ready_s": pool, "deployment_s": deployment, "ready_ratio": ratio}

    async def time_stream(self, hold_seconds: float) -> dict[str, float]:
        """Poisson arrivals."""
        await self.settle()
        watch = Stopwatch()
        arrivals = Arrivals(self.arguments.rate, self.arguments.seconds, hold_seconds)
        async with AsyncExitStack() as stack:
            await stream(watch, await self._connect(stack), self.rng, arrivals)
        self.claimed += watch.claimed
        figures, releases = summarize_ms(watch.claim_seconds), summarize_ms(watch.release_seconds)
        print(f"claims at {arrivals.rate:g}/s, held {hold_seconds:g} s: {figures}", flush=True)
        print(f"their releases: {releases}", flush=True)
        return {"claims": len(watch.claimed), **figures, "release_p50_ms": releases["p50_ms"]}

    async def time_bursts(self) -> dict[str, float]:
        """Bare patches and claims in turns, medians of all rounds."""
        bare, ours = [], []
        for _ in range(self.arguments.rounds):
            await self.settle()
            bare.append(await patch_at_once(self.namespace, self.arguments.burst))
            self.num_bare += self.arguments.burst
            await self.settle()
            watch = Stopwatch()
            async with AsyncExitStack() as stack:
                ours.append(await burst(watch, await self._connect(stack), self.arguments.burst))
            self.claimed += watch.claimed
            print(f"{self.arguments.burst} at once: {ours[-1]:.2f} s, bare {bare[-1]:.2f} s", flush=True)
        seconds, bare_seconds = statistics.median(ours), statistics.median(bare)
        ratio = round(seconds / bare_seconds, 3)
        return {"burst_s": round(seconds, 3), "bare_burst_s": round(bare_seconds, 3), "burst_ratio": ratio}

    async def count(self, before: int) -> dict[str, int]:
        """Pods made against pods needed, once the pool is as at the beginning."""
        await self.settle()
        claimed = self.claimed
        return {
            "creates": await count_created_pods(self.api) - before,
            "target": self.arguments.warm + len(claimed) + self.num_bare,
            "double_claims": len(claimed) - len(set(claimed)),
        }

    async def _connect(self, stack: AsyncExitStack) -> list[Pool]:
        made = [Pool.connect(namespace=self.namespace, name=POOL) for _ in range(self.arguments.holders)]
        return [await stack.enter_async_context(await one) for one in made]


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All measurements on one pool."""
    api = ApiClient(find_credentials(os.environ))
    try:
        async with fresh_namespace(api) as namespace:
            bench = Bench(api, namespace, arguments)
            readiness = await bench.time_readiness()
            figures = await bench.time_stream(arguments.hold_seconds)
            turnover = await bench.time_stream(0.0)
            figures |= {f"turnover_{name}": value for name, value in turnover.items()}
            if arguments.burst:
                figures |= await bench.time_bursts()
            counts = await bench.count(int(readiness.pop("before")))
            return {**figures, **counts, **{name: round(value, 3) for name, value in readiness.items()}}
    finally:
        await api.close()


@contextmanager
def cluster_and_operator() -> Iterator[None]:
    """Those of $KUBECONFIG, or made for this."""
    if os.environ.get("KUBECONFIG"):
        yield
        return
    with own_cluster(fake_nodes=_NODES) as cluster, tempfile.TemporaryDirectory() as folder:
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        with running_operator(cluster.kubeconfig, Path(folder) / "operator.log"):
            yield


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm", type=int, default=1050, help="sandboxes that the pool keeps ready")
    parser.add_argument("--rate", type=float, default=75.0, help="claims a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--hold-seconds", type=float, default=30.0, help="for which a sandbox is kept")
    parser.add_argument("--burst", type=int, default=512, help="claims at once; 0 leaves the bursts out")
    parser.add_argument("--rounds", type=int, default=3, help="of bursts")
    parser.add_argument("--holders", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with cluster_and_operator():
        figures = asyncio.run(measure(arguments))
    print_figures({"benchmark": "claims", "rate": arguments.rate, "burst": arguments.burst, **figures})


if __name__ == "__main__":
    main()
