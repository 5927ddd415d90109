"""512 sandboxes at once on a real node: `KUBECONFIG=... python -m benchmarks.prove.pods [--sandboxes 512]`.

Needs an installed operator. A RolloutPool of that many sandboxes is made, scaled to zero, and made again with the image
already on the node; the limit is what the node's runtime starts when bare pods of the same image are created directly,
measured in the same run. The last line is JSON.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.pods import POOL, fresh_namespace, make_pods
from benchmarks.prove.report import Section, write_section

from sweyard_api.constants import API_VERSION
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient
from sweyard_sandbox.pool.pool import find_credentials, pool_path

POLL_SECONDS = 0.5
REQUESTS = {"cpu": "1m", "memory": "8Mi", "ephemeral-storage": "16Mi"}
"""So little that 512 fit on any node; a sandbox that says nothing asks for 1 GiB of disk."""
DEADLINE_SECONDS = 1_200.0


async def measure(image: str, sandboxes: int, bare: int) -> dict[str, Any]:
    """All figures, in one namespace after the other."""
    api = ApiClient(find_credentials(dict(os.environ)))
    try:
        async with fresh_namespace(api) as namespace:
            began = time.monotonic()
            await make_pods(api, namespace, image, bare, pretend_ready=False)
            limit = bare / (time.monotonic() - began)
            print(f"bare pods: {limit:.2f} a second", flush=True)
        async with fresh_namespace(api) as namespace:
            return {"bare_pods_per_second": round(limit, 2), **await _pool(api, namespace, image, sandboxes)}
    finally:
        await api.close()


async def _pool(api: ApiClient, namespace: str, image: str, sandboxes: int) -> dict[str, Any]:
    pool = {
        "apiVersion": API_VERSION,
        "kind": "RolloutPool",
        "metadata": {"name": POOL},
        "spec": {
            "replicas": sandboxes,
            "warm": [{"image": image, "replicas": sandboxes}],
            "template": {"resources": {"requests": REQUESTS}},
        },
    }
    began = time.monotonic()
    await api.request("POST", pool_path(namespace, POOL).rpartition("/")[0], body=pool)
    filled = await _until(api, namespace, lambda status: status.get("ready", 0) >= sandboxes, began)
    print(f"{sandboxes} sandboxes ready in {filled:.0f} s", flush=True)
    seen = await _count_pods(api, namespace)
    began = time.monotonic()
    patch = {"spec": {"replicas": 0, "warm": []}}
    await api.request("PATCH", pool_path(namespace, POOL), body=patch, content_type=MERGE_PATCH)
    while await _count_pods(api, namespace):
        await asyncio.sleep(POLL_SECONDS)
    emptied = time.monotonic() - began
    print(f"none left after {emptied:.0f} s", flush=True)
    return {
        "sandboxes": sandboxes,
        "pods_when_ready": seen,
        "seconds_to_ready": round(filled, 1),
        "sandboxes_per_second": round(sandboxes / filled, 2),
        "seconds_to_none": round(emptied, 1),
    }


async def _until(api: ApiClient, namespace: str, reached: Callable[[dict[str, Any]], bool], began: float) -> float:
    while True:
        status = (await api.request("GET", pool_path(namespace, POOL))).get("status") or {}
        if reached(status):
            return time.monotonic() - began
        if time.monotonic() - began > DEADLINE_SECONDS:
            raise TimeoutError(f"not reached in {DEADLINE_SECONDS:.0f} s: {status}")
        await asyncio.sleep(POLL_SECONDS)


async def _count_pods(api: ApiClient, namespace: str) -> int:
    return len((await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")).get("items") or [])


def main() -> None:
    """Measure, write docs/performance.md, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.pods", description=__doc__)
    parser.add_argument("--image", required=True, help="an image that the cluster can pull, with /bin/sh")
    parser.add_argument("--sandboxes", type=int, default=512)
    parser.add_argument("--bare", type=int, default=64, help="pods created directly, for the limit")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.image, arguments.sandboxes, arguments.bare))
    ratio = figures["sandboxes_per_second"] / figures["bare_pods_per_second"]
    lines = [
        "| what | figure |",
        "|---|---|",
        *(f"| {name.replace('_', ' ')} | {value} |" for name, value in figures.items()),
        f"| pool's rate against bare pods | {ratio:.2f} |",
    ]
    write_section(Section("512 real sandboxes", "python -m benchmarks.prove.pods", lines))
    print_figures({"benchmark": "prove.pods", **figures})


if __name__ == "__main__":
    main()
