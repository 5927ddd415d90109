"""Demand: the ConfigMap that tells the operator which images this holder's next attempts want."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Sequence

from sweyard_api.constants import DEMAND_KEY, LABEL_POOL
from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient, ApiError, UnreachableError

_SETTLE_SECONDS = 0.2
_RETRY_SECONDS = 2.0
_AGAIN_SECONDS = 30.0
"""Between two writes of the same while claims wait: what somebody changed or removed must not keep them waiting."""


def merge_demand(announced: Sequence[str], waiting: Sequence[str]) -> list[str]:
    """Announced images in order, and before them what waits without having been announced."""
    missing = Counter(waiting)
    missing.subtract(announced)
    first = []
    for image in waiting:
        if missing[image] > 0:
            missing[image] -= 1
            first.append(image)
    return [*first, *announced]


class Demand:
    """What is wanted now. A change is written once things have settled, so a wave of claims costs one write."""

    def __init__(self, api: ApiClient, *, namespace: str, pool: str, holder: str, lease_uid: str) -> None:
        self._api = api
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._holder = holder
        owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": holder, "uid": lease_uid}
        self._metadata = {"name": holder, "labels": {LABEL_POOL: pool}, "ownerReferences": [owner]}
        self._announced: list[str] = []
        self._waiting: list[str] = []
        self._written: list[str] | None = None
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    async def announce(self, images: Sequence[str]) -> None:
        """Replace what was announced, with one write; what could not be written is tried again by `keep`.

        Raises ApiError for a refusal.
        """
        self._announced = list(images)
        try:
            await self._write()
        except UnreachableError:
            self._changed.set()
        except ApiError as error:
            # With its namespace the Lease is gone, too: the holder will hear that by itself.
            if not error.is_passing and error.status != 404:
                raise
            self._changed.set()

    def begin_waiting(self, images: Sequence[str]) -> None:
        """Claims of `images` found no free sandbox."""
        self._waiting += images
        self._changed.set()

    def end_waiting(self, images: Sequence[str]) -> None:
        """They wait no longer."""
        for image in images:
            self._waiting.remove(image)
        self._changed.set()

    def consume(self, image: str) -> None:
        """An announced sandbox was claimed: no other is wanted in its place."""
        with contextlib.suppress(ValueError):
            self._announced.remove(image)
            self._changed.set()

    async def keep(self) -> None:
        """Write changes until cancelled; what could not be written is tried again."""
        while True:
            has_changed = await self._hear_change()
            try:
                await self._write(is_anew=not has_changed and bool(self._waiting))
            except (ApiError, UnreachableError):
                self._changed.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _hear_change(self) -> bool:
        """True once a change has settled, False after a while without any."""
        try:
            async with asyncio.timeout(_AGAIN_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_SETTLE_SECONDS)
        self._changed.clear()
        return True

    async def _write(self, *, is_anew: bool = False) -> None:
        async with self._writing:
            images = merge_demand(self._announced, self._waiting)
            if images == (self._written or []) and not is_anew:
                return
            data = {DEMAND_KEY: json.dumps({"images": images})}
            if self._written is None and await self._create(data):
                self._written = images
                return
            # Somebody may have removed it, and somebody else made it again in between.
            if await self._patch(data) or await self._create(data):
                self._written = images
            else:
                self._changed.set()

    async def _patch(self, data: dict[str, str]) -> bool:
        path = f"{self._collection}/{self._holder}"
        try:
            await self._api.request("PATCH", path, body={"data": data}, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _create(self, data: dict[str, str]) -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, "data": data}
        try:
            await self._api.request("POST", self._collection, body=body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return False
            raise
        return True
