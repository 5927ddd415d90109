"""HolderLease: the sign of life that a holder's sandboxes hang on.

It exists before the first claim. A holder that cannot renew it in time stops itself, before the operator, which counts
on its own clock and only from when it saw the last renewal, gives its sandboxes to others.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sweyard_api.constants import API_VERSION, LABEL_POOL
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pool_object import read_pool_uid

_HURRY = 10
"""After a renewal that failed the next one comes so many times sooner."""
_LATE = "this process did not come to it; run in a thread what blocks its event loop"


class HolderLease:
    """One Lease in the pool's namespace, named after the holder."""

    def __init__(
        self,
        api: ApiClient,
        *,
        namespace: str,
        pool: str,
        pool_uid: str,
        holder: str,
        duration_seconds: int,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.uid = ""
        """Known once it exists."""
        self._api = api
        self._namespace, self._pool = namespace, pool
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{holder}"
        # Owned by the pool: with the pool goes the operator's care for its holders, and so must their Leases.
        owner = {"apiVersion": API_VERSION, "kind": "RolloutPool", "name": pool, "uid": pool_uid}
        self._metadata = {"name": holder, "labels": {LABEL_POOL: pool}, "ownerReferences": [owner]}
        self.holder = holder
        self._duration_seconds = duration_seconds
        self._clock = clock
        self._wall_clock = wall_clock
        self._renewed_at = 0.0

    async def create(self) -> bool:
        """Make the Lease; False if another holder has this name. Raises ApiError, UnreachableError."""
        began = self._clock()
        now = self._micro_time()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": self._metadata,
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self._duration_seconds,
                "acquireTime": now,
                "renewTime": now,
            },
        }
        try:
            answer = await self._api.request("POST", self._collection, body=body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return False
            raise
        self.uid, self._renewed_at = answer["metadata"]["uid"], began
        return True

    async def keep(self) -> InfrastructureError:
        """Renew three times a duration, more often when that fails; returns only when it failed for too long, and says
        why."""
        period, problem = self._duration_seconds / 3, ""
        # Early: a renewal that is on its way then could come too late.
        limit_seconds = self._duration_seconds - period / 2
        pause = period
        while True:
            await asyncio.sleep(pause)
            pause = period / _HURRY
            began = self._clock()
            left_seconds = limit_seconds - (began - self._renewed_at)
            try:
                async with asyncio.timeout(min(period, max(left_seconds, pause))):
                    await self._renew()
                self._renewed_at, pause, problem = began, period, ""
            except ApiError as error:
                problem = str(error)
                if error.status in (403, 404):
                    return self._lost(await self._why_taken(error))
            except (UnreachableError, TimeoutError) as error:
                problem = str(error) or "no answer"
            if self._clock() - self._renewed_at >= limit_seconds:
                return self._lost(
                    f"the Lease {self.holder!r} was not renewed in {self._duration_seconds} s: {problem or _LATE}"
                )

    async def delete(self) -> None:
        """Remove it at the end, if it is still ours."""
        try:
            await self._api.request("DELETE", self._path, body={"preconditions": {"uid": self.uid}})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _why_taken(self, refusal: ApiError) -> str:
        age_seconds = self._clock() - self._renewed_at
        try:
            await read_pool_uid(self._api, self._namespace, self._pool)
        except ApiError as error:
            if error.status == 404:
                return f"the RolloutPool {self._pool!r} was deleted, and with it the Lease {self.holder!r}"
        except UnreachableError:
            pass  # what the refusal says is still true
        return f"the Lease {self.holder!r} was taken away {age_seconds:.0f} s after its last renewal: {refusal.message}"

    async def _renew(self) -> None:
        # Its UID travels along: a Lease of the same name that somebody else made is refused with a conflict.
        body = {"metadata": {"uid": self.uid}, "spec": {"renewTime": self._micro_time()}}
        await self._api.request("PATCH", self._path, body=body, content_type=MERGE_PATCH, is_urgent=True)

    def _micro_time(self) -> str:
        return self._wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _lost(self, message: str) -> InfrastructureError:
        return InfrastructureError(FailureReason.LEASE_LOST, message)


async def create_lease(
    api: ApiClient, names: Sequence[str], *, namespace: str, pool: str, duration_seconds: int
) -> HolderLease:
    """A Lease of the first name that is free. Raises ValueError if none is, ApiError, UnreachableError."""
    pool_uid = await read_pool_uid(api, namespace, pool)
    for name in names:
        lease = HolderLease(
            api, namespace=namespace, pool=pool, pool_uid=pool_uid, holder=name, duration_seconds=duration_seconds
        )
        if await lease.create():
            return lease
    raise ValueError(f"holder {names[-1]!r}: a Lease of this name exists; give another name")
