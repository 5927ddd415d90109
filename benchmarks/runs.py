"""Many TrainingRuns at once: `python -m benchmarks.runs [--runs 200] [--nodes 100]`.

On a control plane of its own with simulated nodes, on which pods run at once and those of Jobs succeed. All runs are
applied together, each with an engine, a gateway, a pool and a trainer, and followed to their end. `apply_to_running_s`
is the median time from a run's creation until its trainer's pod runs, beside the 99th percentile and the longest, which
tell whether any starves; `p99_queue_s` how long an object waited for a worker of the operator (upper bound of a
histogram's bucket), `peak_rss_mib` and `cpu_s_per_run` the kernel's figures of the operator's process;
`cluster_cpu_s_per_run` is what each part of the cluster computed meanwhile: where the limit is, whatever else
the machine does. The last line is JSON; the exit code is 1 unless all succeeded.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.audit import count_writes, read_audit
from benchmarks.figures import percentile, print_figures
from benchmarks.histograms import p99, read_buckets
from benchmarks.operator_process import ALONE, OperatorProcess, cpu_seconds, peak_rss_mib
from benchmarks.own_cluster import own_cluster
from benchmarks.pods import fresh_namespace

from sweyard_api.constants import API_VERSION, LABEL_COMPONENT, LABEL_RUN
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig

_AT_ONCE = 32
_POLL_SECONDS = 0.5
_DEADLINE_SECONDS = 1_800.0
_VOLUME = "benchmark-runs"
_DATASET = "tiny"


async def make_dataset(api: ApiClient, namespace: str) -> None:
    """An empty one: nobody reads it."""
    dataset = {"metadata": {"name": _DATASET}, "binaryData": {"tasks.jsonl.gz": ""}}
    await api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=dataset)


async def make_volume(api: ApiClient, namespace: str) -> str:
    """Name of a claim that is bound beforehand, since simulated nodes provision none."""
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {**common, "capacity": {"storage": "1Ti"}, "hostPath": {"path": "/tmp"}}
    volume["claimRef"] = {"namespace": namespace, "name": _VOLUME}
    await api.request("POST", "/api/v1/persistentvolumes", body={"metadata": {"name": _VOLUME}, "spec": volume})
    claim = {**common, "volumeName": _VOLUME, "resources": {"requests": {"storage": "1Ti"}}}
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    await api.request("POST", path, body={"metadata": {"name": _VOLUME}, "spec": claim})
    return _VOLUME


async def apply_runs(api: ApiClient, namespace: str, num_runs: int) -> dict[str, float]:
    """All at once; when each was created."""
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": _DATASET}}, "storage": {"claimName": _VOLUME}}
    path, turns = f"/apis/{API_VERSION}/namespaces/{namespace}/trainingruns", asyncio.Semaphore(_AT_ONCE)
    created: dict[str, float] = {}

    async def apply(name: str) -> None:
        async with turns:
            body = {"apiVersion": API_VERSION, "kind": "TrainingRun", "metadata": {"name": name}, "spec": spec}
            await api.request("POST", path, body=body)
            created[name] = time.monotonic()

    await asyncio.gather(*(apply(f"run-{number:03d}") for number in range(num_runs)))
    return created


async def follow(
    api: ApiClient, operator: OperatorProcess, namespace: str, num_runs: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Until all are over: when each was first seen with a trainer at work, and its last phase. A run that is not over
    in time has the phase that it is stuck in."""
    running: dict[str, float] = {}
    phases: dict[str, str] = {}
    give_up_at = time.monotonic() + _DEADLINE_SECONDS
    pods_path = f"/api/v1/namespaces/{namespace}/pods"
    runs_path = f"/apis/{API_VERSION}/namespaces/{namespace}/trainingruns"
    while time.monotonic() < give_up_at:
        operator.check_running()
        pods = (await api.request("GET", pods_path, params={"labelSelector": f"{LABEL_COMPONENT}=trainer"}))["items"]
        now = time.monotonic()
        for pod in pods:
            if pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
                running.setdefault(pod["metadata"]["labels"][LABEL_RUN], now)
        runs = (await api.request("GET", runs_path))["items"]
        phases = {run["metadata"]["name"]: (run.get("status") or {}).get("phase", "") for run in runs}
        if len(phases) == num_runs and set(phases.values()) <= {"Succeeded", "Failed"}:
            break
        await asyncio.sleep(_POLL_SECONDS)
    return running, phases


async def measure(kubeconfig: Path, operator: OperatorProcess, num_runs: int) -> dict[str, Any]:
    """The life of all runs."""
    api = ApiClient(load_kubeconfig(kubeconfig))
    try:
        async with fresh_namespace(api) as namespace:
            await make_dataset(api, namespace)
            await make_volume(api, namespace)
            began = time.monotonic()
            created = await apply_runs(api, namespace, num_runs)
            running, phases = await follow(api, operator, namespace, num_runs)
            seconds = time.monotonic() - began
    finally:
        await api.close()
    for name, phase in sorted(phases.items()):
        if phase != "Succeeded":
            print(f"{name} is {phase or 'without a phase'}", flush=True)
    return {
        "runs": num_runs,
        "succeeded": sum(phase == "Succeeded" for phase in phases.values()),
        **summarize(running[name] - created[name] for name in created if name in running),
        "all_over_s": round(seconds, 1),
    }


def summarize(waits: Iterable[float]) -> dict[str, float]:
    """Seconds from apply to a running trainer."""
    seconds = list(waits)
    shares = {"apply_to_running_s": 0.5, "apply_to_running_p99_s": 0.99, "apply_to_running_max_s": 1.0}
    return {name: round(percentile(seconds, share), 1) for name, share in shares.items()} if seconds else {}


def part_cpu_seconds(cluster: TestCluster) -> dict[str, float]:
    """Of each program of the cluster, since it began."""
    table = cluster.tool.processes(cluster.tool.cache.cluster(cluster.name))
    records = {name: table.running(name) for name in table.names()}
    return {name: cpu_seconds(record.pid) for name, record in records.items() if record is not None}


def run(num_runs: int, num_nodes: int, log: Path) -> dict[str, Any]:
    """Everything, on a cluster of its own."""
    with own_cluster(fake_nodes=num_nodes, audit=True) as cluster:
        operator = OperatorProcess(cluster.kubeconfig, log, SWEYARD_TRAINER_IMAGE="benchmark/none:1", **ALONE)
        try:
            operator.start()
            operator.wait_until_ready()
            idle_rss_mib, idle_cpu_s = peak_rss_mib(operator.pid), cpu_seconds(operator.pid)
            idle_parts_s = part_cpu_seconds(cluster)
            figures = asyncio.run(measure(cluster.kubeconfig, operator, num_runs))
            figures |= {
                "peak_rss_mib": round(peak_rss_mib(operator.pid)),
                "idle_rss_mib": round(idle_rss_mib),
                "cpu_s_per_run": round((cpu_seconds(operator.pid) - idle_cpu_s) / num_runs, 3),
                "cluster_cpu_s_per_run": {
                    name: round((seconds - idle_parts_s[name]) / num_runs, 3)
                    for name, seconds in part_cpu_seconds(cluster).items()
                },
                "p99_queue_s": p99(read_buckets(operator.scrape(), "sweyard_queue_seconds", "TrainingRun")),
                "p99_pass_s": p99(read_buckets(operator.scrape(), "sweyard_pass_seconds", "TrainingRun")),
            }
        finally:
            operator.end()
        writes = count_writes(read_audit(cluster.tool.cache.cluster(cluster.name).logs))
    ours = {what: count for what, count in writes.items() if what.startswith("sweyard-operator ")}
    for what, count in sorted(ours.items()):
        print(f"{count:>8} {what}", flush=True)
    return {**figures, "writes_per_run": round(sum(ours.values()) / num_runs, 1)}


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=100, help="simulated ones")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = run(arguments.runs, arguments.nodes, Path(directory) / "operator.log")
    print_figures({"benchmark": "runs", **figures})
    return 0 if figures["succeeded"] == arguments.runs else 1


if __name__ == "__main__":
    sys.exit(main())
