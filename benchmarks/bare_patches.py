"""The least that claiming could cost: JSON patches of pods known beforehand, sent at once by a bare HTTP client."""

import asyncio
import json
import os
import time
from datetime import UTC, datetime

import aiohttp
from benchmarks.pods import POOL

from sweyard_api.constants import LABEL_POOL
from sweyard_sandbox.pool.api import JSON_PATCH
from sweyard_sandbox.pool.claim_patch import build_claim_patch
from sweyard_sandbox.pool.credentials import find_credentials
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod

_HOLDER = "bare"


async def patch_at_once(namespace: str, count: int) -> float:
    """Seconds for `count` patches; the pods are deleted afterwards, which is not timed."""
    credentials = find_credentials(os.environ)
    url = f"{credentials.server}/api/v1/namespaces/{namespace}/pods"
    connector = aiohttp.TCPConnector(ssl=credentials.ssl_context or False)
    token = await credentials.token_source.token(time.monotonic())
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def patch(pod: SandboxPod) -> None:
            body = json.dumps(build_claim_patch(pod.uid, _HOLDER, datetime.now(UTC)))
            sent = session.patch(f"{url}/{pod.name}", data=body, headers={"Content-Type": JSON_PATCH})
            async with sent as reply:
                await reply.read()
                reply.raise_for_status()

        async def delete(pod: SandboxPod) -> None:
            # This one and no other: the operator, which knows no such holder, may have put another in its place.
            async with session.delete(f"{url}/{pod.name}", json={"preconditions": {"uid": pod.uid}}) as reply:
                if reply.status not in (404, 409):
                    reply.raise_for_status()

        async with session.get(url, params={"labelSelector": f"{LABEL_POOL}={POOL}"}) as reply:
            items = (await reply.json())["items"]
        pods = [pod for pod in map(parse_pod, items) if pod.is_free][:count]
        if len(pods) < count:
            raise ValueError(f"--burst {count} is more than the {len(pods)} free sandboxes; raise --warm")
        began = time.perf_counter()
        await asyncio.gather(*map(patch, pods))
        seconds = time.perf_counter() - began
        await asyncio.gather(*map(delete, pods))
        return seconds
