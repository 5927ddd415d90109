"""The RolloutPool as the API server has it."""

from typing import Any

from sweyard_api.constants import API_VERSION, LABEL_POOL
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod
from sweyard_sandbox.pool.store import PodStore
from sweyard_sandbox.pool.waiting_reasons import Waiting, Want, explain_waiting


def pool_path(namespace: str, name: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/rolloutpools/{name}"


async def read_pool_uid(api: ApiClient, namespace: str, name: str) -> str:
    """Raises ApiError: NotFound if there is no such pool."""
    return str((await api.request("GET", pool_path(namespace, name)))["metadata"]["uid"])


async def ask_why(
    api: ApiClient, namespace: str, name: str, want: Want, store: PodStore, *, watch_error: str
) -> Waiting:
    """What a claim waits for now. Never raises: that the API server does not answer is an answer."""
    pool: dict[str, Any] | None = None
    pending: list[SandboxPod] = []
    try:
        pending = await _list_pending(api, namespace, name)
        pool = await api.request("GET", pool_path(namespace, name))
    except UnreachableError as error:
        watch_error = watch_error or str(error)
    except ApiError as error:
        if error.status != 404:
            watch_error = watch_error or str(error)
    counts = store.count()
    if num_starting := counts.get("starting", 0) + len(pending):
        counts["starting"] = num_starting
    starting = [pod for pod in pending if pod.image == want.image]
    return explain_waiting(want, pool=pool, counts=counts, starting=starting, watch_error=watch_error)


async def _list_pending(api: ApiClient, namespace: str, name: str) -> list[SandboxPod]:
    """Pods that are not running yet, at most as many as are worth reading."""
    params = {"labelSelector": f"{LABEL_POOL}={name}", "fieldSelector": "status.phase=Pending", "limit": "500"}
    answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", params=params)
    return [parse_pod(item) for item in answer.get("items") or ()]
