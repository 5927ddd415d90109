"""One operator at a time: a Lease that its process holds, renews, and ends with.

Its renewals are also the heartbeat by which `contact` notices an outage of the API server.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from sweyard_operator.cluster import Cluster
from sweyard_operator.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    OperatorError,
    UnreachableError,
    log_level,
)
from sweyard_operator.resources import LEASES, Manifest

logger = logging.getLogger(__name__)

LEASE_NAME = "sweyard-operator"
MAX_HEARTBEAT_SECONDS = 5.0
"""However long the Lease is: what is heard less often than each 15 s is taken for an outage (`contact`)."""


class LeadershipLostError(OperatorError):
    """Another process may lead by now: this one must end."""


class LeaderLease:
    """Acquire, then renew until lost."""

    def __init__(self, cluster: Cluster, *, namespace: str, identity: str, duration_seconds: int) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._duration_seconds = duration_seconds

    async def acquire(self) -> None:
        """Wait until the Lease is ours. A stranger's has lapsed when seen unchanged for its own duration."""
        seen: tuple[str, float] | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                lease = await self._get_or_create()
            except (ApiError, UnreachableError) as error:
                logger.log(log_level(error), "leader Lease not read: %r", error)
                await asyncio.sleep(self._duration_seconds / 5)
                continue
            spec = lease["spec"]
            version = str(lease["metadata"]["resourceVersion"])
            if seen is None or seen[0] != version:
                seen = (version, loop.time())
            duration = float(spec.get("leaseDurationSeconds") or self._duration_seconds)
            is_free = spec.get("holderIdentity") in ("", None, self._identity)
            if (is_free or loop.time() - seen[1] > duration) and await self._take(lease):
                logger.info("leading as %s", self._identity)
                return
            await asyncio.sleep(min(1.0, self._duration_seconds / 5))

    async def renew_until_lost(self) -> None:
        """Raises LeadershipLostError once it is taken, or could not be renewed for its duration."""
        loop = asyncio.get_running_loop()
        heartbeat_seconds = min(self._duration_seconds / 3, MAX_HEARTBEAT_SECONDS)
        renewed_at, pause_seconds = loop.time(), heartbeat_seconds
        while True:
            await asyncio.sleep(pause_seconds)
            pause_seconds = heartbeat_seconds / 5
            deadline = renewed_at + self._duration_seconds
            try:
                async with asyncio.timeout_at(deadline):
                    lease = await self._cluster.get(LEASES, self._namespace, LEASE_NAME)
                    if lease["spec"].get("holderIdentity") != self._identity:
                        raise LeadershipLostError(f"{lease['spec'].get('holderIdentity')} leads now")
                    if await self._take(lease):
                        renewed_at, pause_seconds = loop.time(), heartbeat_seconds
            except (ApiError, UnreachableError, TimeoutError) as error:
                logger.log(log_level(error), "leader Lease not renewed: %r", error)
            if loop.time() >= renewed_at + self._duration_seconds:
                raise LeadershipLostError(f"no renewal for {self._duration_seconds} s")

    async def release(self) -> None:
        """Give it up at a clean end, so that the next process need not wait."""
        lease = await self._cluster.get(LEASES, self._namespace, LEASE_NAME)
        if lease["spec"].get("holderIdentity") == self._identity:
            await self._replace(lease, holder="")

    async def _get_or_create(self) -> Manifest:
        try:
            return await self._cluster.get(LEASES, self._namespace, LEASE_NAME)
        except NotFoundError:
            metadata = {"name": LEASE_NAME, "namespace": self._namespace}
            empty = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
            try:
                return await self._cluster.create(empty)
            except AlreadyExistsError:
                return await self._cluster.get(LEASES, self._namespace, LEASE_NAME)

    async def _take(self, lease: Manifest) -> bool:
        try:
            await self._replace(lease, holder=self._identity)
        except ConflictError:
            return False
        return True

    async def _replace(self, lease: Manifest, *, holder: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            **lease["spec"],
            "holderIdentity": holder,
            "leaseDurationSeconds": self._duration_seconds,
            "renewTime": now,
        }
        await self._cluster.replace({**lease, "spec": spec})
