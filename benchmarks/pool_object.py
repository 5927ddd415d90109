"""The RolloutPool that a benchmark's pods belong to; no operator cares for it."""

import asyncio
from pathlib import Path

import yaml
from benchmarks.pods import POOL

from sweyard_api.constants import API_VERSION
from sweyard_sandbox.pool.api import ApiClient, ApiError

CRD = Path(__file__).parents[1] / "crds" / "rolloutpools.yaml"
_APPLY_PATCH = "application/apply-patch+yaml"
_ESTABLISHING_SECONDS = 30.0


async def make_pool(api: ApiClient, namespace: str) -> None:
    """Install the kind, if need be, and make a pool. Raises ApiError, TimeoutError."""
    crd = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
    params = {"fieldManager": "benchmark", "force": "true"}
    await api.request("PATCH", path, body=crd, content_type=_APPLY_PATCH, params=params)
    pool = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": POOL}, "spec": {"replicas": 0}}
    async with asyncio.timeout(_ESTABLISHING_SECONDS):
        while True:
            try:
                await api.request("POST", f"/apis/{API_VERSION}/namespaces/{namespace}/rolloutpools", body=pool)
            except ApiError as error:
                if error.status != 404:
                    raise
                await asyncio.sleep(0.2)
            else:
                return
