"""A RolloutPool that an operator keeps warm, and a Deployment of the same pods, both judged by their own status."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.pods import POOL

from sweyard_api.constants import API_VERSION
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.sandbox_pod import build_sandbox_pod
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.pool_object import pool_path

IMAGE = "benchmark/none:1"
REQUESTS = {"cpu": "1m", "memory": "8Mi", "ephemeral-storage": "16Mi"}
"""So little that hundreds fit on a node; a sandbox that says nothing asks for 1 GiB of disk."""
TEMPLATE = {"resources": {"requests": REQUESTS}}
_BASELINE = "baseline"
_POLL_SECONDS = 0.2
_DEADLINE_SECONDS = 1_800.0
_CREATED = ('code="201"', 'resource="pods"', 'subresource=""', 'verb="POST"')
_CREATED_PODS = re.compile(
    rf"^apiserver_request_total\{{{''.join(f'(?=.*{label})' for label in _CREATED)}.*\}} (\S+)$", re.M
)


async def create_pool(
    api: ApiClient,
    namespace: str,
    replicas: int,
    warm: int,
    *,
    name: str = POOL,
    image: str = IMAGE,
    template: Mapping[str, Any] = TEMPLATE,
    **fields: Any,
) -> None:
    """A RolloutPool with so many of `image` warm; `fields` are others of its spec."""
    wanted = [{"image": image, "replicas": warm}] if warm else []
    spec = {"replicas": replicas, "warm": wanted, "template": dict(template), **fields}
    body = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": name}, "spec": spec}
    await api.request("POST", pool_path(namespace, name).rpartition("/")[0], body=body)


async def time_pool(api: ApiClient, namespace: str, warm: int, *, image: str = IMAGE) -> float:
    """Seconds from the pool's creation until its status says that all `warm` sandboxes are ready."""
    began = time.perf_counter()
    await create_pool(api, namespace, warm, warm, image=image)
    await wait_until_warm(api, namespace, warm)
    return time.perf_counter() - began


async def wait_until_warm(api: ApiClient, namespace: str, warm: int) -> None:
    """All `warm` sandboxes are ready and free, and nothing is on its way. Raises TimeoutError."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            status = (await api.request("GET", pool_path(namespace, POOL))).get("status") or {}
            counts = [status.get(name, 0) for name in ("ready", "claimed", "starting", "terminating")]
            conditions = {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}
            if counts == [warm, 0, 0, 0] and conditions.get("Ready") == "True":
                return
            await asyncio.sleep(_POLL_SECONDS)


async def time_deployment(api: ApiClient, namespace: str, replicas: int, *, image: str = IMAGE) -> float:
    """Seconds until so many replicas are available: the same pods but for what a Deployment does not allow, and spread
    as the scheduler spreads a Deployment's."""
    metadata = {"name": POOL, "namespace": namespace, "uid": ""}
    owner = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": metadata}
    sandboxes = RolloutPoolSpec.model_validate({"template": TEMPLATE})
    pod = build_sandbox_pod(owner, sandboxes, slot=0, image=image)
    not_for_deployments = ("activeDeadlineSeconds", "topologySpreadConstraints")
    pod_spec = {key: value for key, value in pod["spec"].items() if key not in not_for_deployments}
    labels = {"app": _BASELINE}
    annotations = pod["metadata"]["annotations"]
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {**pod_spec, "restartPolicy": "Always"},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _BASELINE}, "spec": spec}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    began = time.perf_counter()
    await api.request("POST", path, body=body)
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while await _read_available(api, f"{path}/{_BASELINE}") < replicas:
            await asyncio.sleep(_POLL_SECONDS)
    return time.perf_counter() - began


async def delete_deployment(api: ApiClient, namespace: str) -> None:
    """And wait until its pods are gone."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{_BASELINE}"
    await api.request("DELETE", path, params={"propagationPolicy": "Background"})
    await wait_until_empty(api, namespace)


async def wait_until_empty(api: ApiClient, namespace: str) -> None:
    """No pod is left. Raises TimeoutError."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while (await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", params={"limit": "1"}))["items"]:
            await asyncio.sleep(_POLL_SECONDS)


async def count_created_pods(api: ApiClient) -> int:
    """Pods that the API server has ever accepted, by its own metrics."""
    text = await api.read_text("/metrics")
    return sum(int(float(count)) for count in _CREATED_PODS.findall(text))


async def _read_available(api: ApiClient, path: str) -> int:
    status: dict[str, Any] = (await api.request("GET", path)).get("status") or {}
    return int(status.get("availableReplicas", 0))
