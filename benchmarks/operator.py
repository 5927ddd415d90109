# ruff: noqa: A005 (its name is what people type; nothing imports it)
"""What the operator costs: `python -m benchmarks.operator --sandboxes 5000`.

On a control plane of its own with 100 simulated nodes, pools of a tenth of that many sandboxes and of all of them live
once: each sandbox is created, claimed and released by the real client, the pool scaled to zero. One holder claims and
releases, 64 at a time; all Leases are as long as by default. CPU time and memory are the kernel's figures of the
operator's process; `writes_per_sandbox` are all writes of operator and client by the API server's audit log (status,
Leases, policies, events too), `pod_writes_per_sandbox` those to pods alone. `p99_reconcile_ms` is how long a pass
takes, mostly its wait for answers to up to 64 writes, `p99_computed_ms` the processor time in it (upper bounds of a
histogram's bucket). Baseline, in the same run: a process that only parses the same watch. The last line is JSON.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.audit import count_writes, read_audit
from benchmarks.figures import print_figures
from benchmarks.histograms import Buckets, p99, read_buckets
from benchmarks.operator_process import CHECKOUT, OperatorProcess, cpu_seconds, peak_rss_mib
from benchmarks.own_cluster import own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.warm_pool import IMAGE, create_pool

from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.pool import Pool, pool_path

NODES = 100
_PASSES, _COMPUTED = "sweyard_pass_seconds", "sweyard_pass_computed_seconds"
_POLL_SECONDS = 1.0
_DEADLINE_SECONDS = 1_200.0
_SETTLE_SECONDS = 5.0
_AT_ONCE = 64
_USERS = {
    *(f"sweyard-sandbox {verb} namespaces" for verb in ("create", "delete")),
    *(f"sweyard-sandbox {verb} rolloutpools" for verb in ("create", "patch", "delete")),
}
"""What a pool's user does by kubectl, and this benchmark through the client."""


async def live_once(
    api: ApiClient, kubeconfig: Path, operator: OperatorProcess, namespace: str, sandboxes: int
) -> dict[str, float]:
    """A pool from nothing to nothing: each sandbox is created, claimed and released. Seconds by part, and the 99th
    percentile of the passes in it."""
    path = pool_path(namespace, POOL)
    moments, passes = [time.monotonic()], [read_passes(operator, _PASSES)]

    def end_part() -> None:
        moments.append(time.monotonic())
        passes.append(read_passes(operator, _PASSES))

    await create_pool(api, namespace, sandboxes, sandboxes)
    await _until(operator, lambda: _is_ready(api, path, sandboxes))
    end_part()
    credentials = load_kubeconfig(kubeconfig)
    turns = asyncio.Semaphore(_AT_ONCE)
    async with await Pool.connect(namespace=namespace, name=POOL, credentials=credentials) as pool:

        async def claim() -> SandboxPod:
            async with turns:
                return await pool.acquire_pod(IMAGE, deadline_seconds=_DEADLINE_SECONDS)

        async def release(pod: SandboxPod) -> None:
            async with turns:
                await pool.release_pod(pod)

        pods = await asyncio.gather(*(claim() for _ in range(sandboxes)))
        end_part()
        # First the spec, so that no other takes the place of what is released.
        await api.request("PATCH", path, body={"spec": {"replicas": 0, "warm": []}}, content_type=MERGE_PATCH)
        await asyncio.gather(*(release(pod) for pod in pods))
        await _until(operator, lambda: _is_empty(api, path, namespace))
        end_part()
    await api.request("DELETE", path)
    parts = ("ready", "claimed", "gone")
    seconds = {f"{part}_s": round(moments[i + 1] - moments[i], 1) for i, part in enumerate(parts)}
    return seconds | {f"{part}_p99_pass_ms": p99_ms(passes[i + 1], passes[i]) for i, part in enumerate(parts)}


async def _until(operator: OperatorProcess, holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not await holds():
            operator.check_running()
            await asyncio.sleep(_POLL_SECONDS)


async def _is_ready(api: ApiClient, path: str, sandboxes: int) -> bool:
    status = (await api.request("GET", path)).get("status") or {}
    return bool(status.get("ready", 0) >= sandboxes)


async def _is_empty(api: ApiClient, path: str, namespace: str) -> bool:
    status = (await api.request("GET", path)).get("status") or {}
    page = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", params={"limit": "1"})
    return not page["items"] and not status.get("replicas", 0)


async def measure(kubeconfig: Path, operator: OperatorProcess, bare: int, sizes: list[int]) -> dict[int, Any]:
    """By pool size: CPU seconds of the operator and of the bare watch, and the parts of a pool's life."""
    api = ApiClient(load_kubeconfig(kubeconfig))
    figures: dict[int, Any] = {}
    try:
        for sandboxes in sizes:
            await asyncio.sleep(_SETTLE_SECONDS)
            before = cpu_seconds(operator.pid), cpu_seconds(bare)
            async with fresh_namespace(api) as namespace:
                parts = await live_once(api, kubeconfig, operator, namespace, sandboxes)
            after = cpu_seconds(operator.pid), cpu_seconds(bare)
            cpu_s, bare_s = (round(late - early, 2) for early, late in zip(before, after, strict=True))
            figures[sandboxes] = {"cpu_s": cpu_s, "bare_watch_cpu_s": bare_s, **parts}
            print(f"{sandboxes} sandboxes: {figures[sandboxes]}", flush=True)
    finally:
        await api.close()
    return figures


def read_passes(operator: OperatorProcess, name: str) -> Buckets:
    """Of a histogram over passes: how many took at most so many seconds."""
    return read_buckets(operator.scrape(), name, "RolloutPool")


def p99_ms(after: Buckets, before: Buckets | None = None) -> float:
    """In milliseconds."""
    return 1e3 * p99(after, before)


def _bare(figures: dict[int, Any], size: int) -> float:
    """CPU seconds a sandbox of a process that only parses: it grows with whatever else the machine is busy with."""
    return float(figures[size]["bare_watch_cpu_s"]) / size


def run(sandboxes: int, log: Path) -> dict[str, Any]:
    """Everything, on a cluster of its own."""
    sizes = [sandboxes // 10, sandboxes]
    with own_cluster(fake_nodes=NODES, audit=True) as cluster:
        operator = OperatorProcess(cluster.kubeconfig, log)
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(cluster.kubeconfig)}
        bare = subprocess.Popen([sys.executable, "-m", "benchmarks.bare_watch"], cwd=CHECKOUT, env=environment)
        try:
            operator.start()
            operator.wait_until_ready()
            idle_rss_mib = peak_rss_mib(operator.pid)
            figures = asyncio.run(measure(cluster.kubeconfig, operator, bare.pid, sizes))
            rss_mib = peak_rss_mib(operator.pid)
            passes, computed = (read_passes(operator, name) for name in (_PASSES, _COMPUTED))
        finally:
            operator.end()
            bare.kill()
            bare.wait()
        writes = count_writes(read_audit(cluster.tool.cache.cluster(cluster.name).logs))
    ours = sum(count for what, count in writes.items() if what not in _USERS)
    to_pods = sum(count for what, count in writes.items() if what.endswith(" pods"))
    for what, count in sorted(writes.items()):
        print(f"{count:>8} {what}", flush=True)
    small, large = (figures[size]["cpu_s"] / size for size in sizes)
    return {
        "sandboxes": sandboxes,
        **figures[sandboxes],
        "cpu_ms_per_sandbox": round(large * 1e3, 2),
        "idle_rss_mib": round(idle_rss_mib),
        "peak_rss_mib": round(rss_mib),
        "writes_per_sandbox": round(ours / sum(sizes), 3),
        "pod_writes_per_sandbox": round(to_pods / sum(sizes), 3),
        "p99_reconcile_ms": p99_ms(passes),
        "p99_computed_ms": p99_ms(computed),
        "flatness": round(large / small, 3),
        "flatness_to_bare_watch": round(large / small * _bare(figures, sizes[0]) / _bare(figures, sizes[1]), 3),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=5_000, help="in the larger pool; the smaller has a tenth")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print_figures({"benchmark": "operator", **run(arguments.sandboxes, Path(directory) / "operator.log")})


if __name__ == "__main__":
    main()
