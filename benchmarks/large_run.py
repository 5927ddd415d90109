"""One large run: `python -m benchmarks.large_run [--file examples/recipes/deepswe-32b.yaml] [--nodes 100]`.

The recipe as it stands, on a control plane of its own with simulated nodes of which eight have eight GPUs: a trainer of
64 GPUs, the gateway, and all sandboxes that the recipe may have, kept warm so that they are there without a trainer at
work. Its volume is bound beforehand, since simulated nodes provision none. Seconds from apply until all pods of the
trainer run and until all sandboxes are ready, the operator's requests by the audit log, its processor time and memory.
The last line is JSON; the exit code is 1 if anything is missing.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from benchmarks.audit import read_audit
from benchmarks.figures import print_figures
from benchmarks.gpu_nodes import give_gpus
from benchmarks.operator_process import ALONE, CHECKOUT, OperatorProcess, cpu_seconds, peak_rss_mib
from benchmarks.own_cluster import own_cluster
from benchmarks.pods import fresh_namespace
from benchmarks.runs import make_volume
from benchmarks.warm_pool import IMAGE

from sweyard_api.constants import API_VERSION, LABEL_COMPONENT
from sweyard_api.resolve import resolve
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig

_GPU_NODES, _GPUS_PER_NODE = 8, 8
_POLL_SECONDS = 0.5
_DEADLINE_SECONDS = 900.0
_AGENT = "sweyard-operator"


def build_spec(recipe: Path, volume: str) -> dict[str, Any]:
    """The recipe's own, with its volume and with all its sandboxes warm."""
    spec: dict[str, Any] = yaml.safe_load(recipe.read_text(encoding="utf-8"))["spec"]
    replicas = resolve(spec).sandboxes.replicas
    warm = {"warm": [{"image": IMAGE, "replicas": replicas}]}
    return {**spec, "storage": {"claimName": volume}, "sandboxes": {**spec.get("sandboxes", {}), **warm}}


async def follow(api: ApiClient, operator: OperatorProcess, namespace: str, spec: dict[str, Any]) -> dict[str, float]:
    """Seconds from now until each part is there, as far as it comes within the deadline."""
    config = resolve(spec)
    began = time.monotonic()
    seconds: dict[str, float] = {}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pool = f"/apis/{API_VERSION}/namespaces/{namespace}/rolloutpools/large"
    while time.monotonic() - began < _DEADLINE_SECONDS and len(seconds) < 2:
        operator.check_running()
        trainers = (await api.request("GET", pods, params={"labelSelector": f"{LABEL_COMPONENT}=trainer"}))["items"]
        running = sum(pod.get("status", {}).get("phase") in ("Running", "Succeeded") for pod in trainers)
        if running >= config.trainer.replicas:
            seconds.setdefault("apply_to_running_s", round(time.monotonic() - began, 1))
        pools = (await api.request("GET", pool.rpartition("/")[0]))["items"]
        ready = max(((one.get("status") or {}).get("ready", 0) for one in pools), default=0)
        if ready >= config.sandboxes.replicas:
            seconds.setdefault("sandboxes_ready_s", round(time.monotonic() - began, 1))
        await asyncio.sleep(_POLL_SECONDS)
    return seconds


async def measure(kubeconfig: Path, operator: OperatorProcess, recipe: Path) -> dict[str, Any]:
    """From apply to the last sandbox."""
    api = ApiClient(load_kubeconfig(kubeconfig))
    try:
        await give_gpus(api, _GPU_NODES, _GPUS_PER_NODE)
        async with fresh_namespace(api) as namespace:
            spec = build_spec(recipe, await make_volume(api, namespace))
            body = {"apiVersion": API_VERSION, "kind": "TrainingRun", "metadata": {"name": "large"}, "spec": spec}
            cpu_s = cpu_seconds(operator.pid)
            await api.request("POST", f"/apis/{API_VERSION}/namespaces/{namespace}/trainingruns", body=body)
            seconds = await follow(api, operator, namespace, spec)
            cpu_s = cpu_seconds(operator.pid) - cpu_s
    finally:
        await api.close()
    return {"sandboxes": resolve(spec).sandboxes.replicas, **seconds, "operator_cpu_s": round(cpu_s, 2)}


def count_requests(logs: Path) -> Counter[str]:
    """The operator's, by verb and resource."""
    ours = (entry for entry in read_audit(logs) if entry.get("userAgent", "").startswith(_AGENT))
    return Counter(f"{entry['verb']} {(entry.get('objectRef') or {}).get('resource', '')}" for entry in ours)


def run(recipe: Path, num_nodes: int, log: Path) -> dict[str, Any]:
    """Everything, on a cluster of its own."""
    with own_cluster(fake_nodes=num_nodes, audit=True) as cluster:
        operator = OperatorProcess(cluster.kubeconfig, log, SWEYARD_TRAINER_IMAGE="benchmark/none:1", **ALONE)
        try:
            operator.start()
            operator.wait_until_ready()
            figures = asyncio.run(measure(cluster.kubeconfig, operator, recipe))
            figures["peak_rss_mib"] = round(peak_rss_mib(operator.pid))
        finally:
            operator.end()
        requests = count_requests(cluster.tool.cache.cluster(cluster.name).logs)
    for what, count in sorted(requests.items()):
        print(f"{count:>8} {what}", flush=True)
    return {**figures, "api_requests": sum(requests.values())}


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=CHECKOUT / "examples" / "recipes" / "deepswe-32b.yaml")
    parser.add_argument("--nodes", type=int, default=100, help="simulated ones, eight of them with GPUs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = run(arguments.file, arguments.nodes, Path(directory) / "operator.log")
    print_figures({"benchmark": "large_run", **figures})
    return 0 if {"apply_to_running_s", "sandboxes_ready_s"} <= figures.keys() else 1


if __name__ == "__main__":
    sys.exit(main())
