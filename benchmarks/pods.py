"""Free sandbox pods of a pool that nobody reconciles, in a namespace of their own, for benchmarks of the client."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sweyard_api.constants import ANNOTATION_HOLDER, CONTAINER_SANDBOX, LABEL_POOL
from sweyard_operator.build.sandbox_pod import KEEP_ALIVE
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient

POOL = "benchmark"
_AT_ONCE = 32


@asynccontextmanager
async def fresh_namespace(api: ApiClient) -> AsyncIterator[str]:
    """Removed at the end, with all that is in it."""
    name = f"benchmark-{secrets.token_hex(4)}"
    await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    try:
        yield name
    finally:
        await api.request("DELETE", f"/api/v1/namespaces/{name}")


async def make_pods(api: ApiClient, namespace: str, image: str, count: int, *, pretend_ready: bool) -> list[str]:
    """Names of `count` Ready pods. `pretend_ready`: write their status instead of waiting for a kubelet."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    turns = asyncio.Semaphore(_AT_ONCE)
    names = [f"{POOL}-{number}" for number in range(count)]

    async def make(name: str) -> None:
        async with turns:
            await api.request("POST", path, body=_build_pod(name, image, schedulable=not pretend_ready))
            if pretend_ready:
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                body = {"status": status}
                await api.request("PATCH", f"{path}/{name}/status", body=body, content_type=MERGE_PATCH)

    await asyncio.gather(*map(make, names))
    await _wait_until(api, path, lambda pods: sum(map(_is_ready, pods)) >= count)
    return names


def _build_pod(name: str, image: str, *, schedulable: bool) -> dict[str, Any]:
    container = {"name": CONTAINER_SANDBOX, "image": image, "command": ["/bin/sh", "-c", KEEP_ALIVE]}
    spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if not schedulable:
        spec["schedulerName"] = "nobody"
    metadata = {"name": name, "labels": {LABEL_POOL: POOL}, "annotations": {ANNOTATION_HOLDER: ""}}
    return {"metadata": metadata, "spec": spec}


async def _wait_until(api: ApiClient, path: str, is_done: Callable[[list[dict[str, Any]]], bool]) -> None:
    while not is_done((await api.request("GET", path)).get("items") or []):
        await asyncio.sleep(1)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
