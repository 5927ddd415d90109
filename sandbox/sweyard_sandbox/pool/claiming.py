"""Claims: takes free pods by one JSON patch each (`claim_patch`), of which the API server lets one succeed.

No claim leaks: a pod that the watch shows as ours and that nobody here knows of (a patch that took effect after its
answer was given up, or that an earlier process of the same name made) is given back.
"""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from sweyard_api.constants import ANNOTATION_HOLDER, ANNOTATION_RELEASE
from sweyard_api.json_pointer import annotation_path
from sweyard_sandbox.pool.api import JSON_PATCH, ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.claim_patch import build_claim_patch
from sweyard_sandbox.pool.claim_queue import ClaimQueue
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod
from sweyard_sandbox.pool.store import PodStore

_NO_VALIDATION = {"fieldValidation": "Ignore"}
"""Else the API server parses the pod twice, in search of unknown fields."""
_RETRY_SECONDS = 0.5
_ANY_USE = sys.maxsize
"""While a claim is on its way: the pod may have been recycled since it was last heard of."""
_ASK_AFTER_SECONDS = 0.1
"""Between an answer that got lost and the question how it went: a server in trouble is not hurried."""
_RELEASE_TRIES = 10
"""After these a caller no longer waits for its release; it goes on behind."""


class Claims:
    """One holder's claims."""

    def __init__(
        self,
        api: ApiClient,
        store: PodStore,
        demand: Demand,
        *,
        namespace: str,
        holder: str,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.queue = ClaimQueue(store, demand)
        self.held: dict[str, SandboxPod] = {}
        """By UID."""
        self.num_lost_races = 0
        self._api = api
        self._store = store
        self._demand = demand
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._holder = holder
        self._wall_clock = wall_clock
        self._known: dict[str, int] = {}
        """By UID: pods that are being claimed, held or given back, and the use that is known of."""
        self._cleaning: set[asyncio.Task[None]] = set()

    async def claim(self, image: str) -> SandboxPod:
        """Claim a pod of `image`, waiting for one to be free; a cancelled call holds nothing.

        Raises ApiError when the server refuses for good, InfrastructureError when the holder has stopped.
        """
        ticket = self.queue.draw_ticket()
        while True:
            candidate = await self.queue.take(image, ticket)
            attempt = asyncio.ensure_future(self.attempt(candidate))
            try:
                pod = await asyncio.shield(attempt)
            except asyncio.CancelledError:
                self.clean(self._undo(attempt))
                raise
            if pod is not None:
                self._demand.consume(image)
                return pod

    async def attempt(self, pod: SandboxPod) -> SandboxPod | None:
        """The pod if it is ours now; None if it is not to be had. Raises as `claim` does."""
        self._known[pod.uid] = _ANY_USE
        claimed = None
        try:
            claimed = await self._patch(pod)
        finally:
            if claimed is None:
                self._known.pop(pod.uid, None)
            else:
                self._known[pod.uid] = claimed.recycled
        if claimed is None or (not claimed.is_leaving and claimed.is_ready):
            if claimed is not None:
                self.held[claimed.uid] = claimed
            return claimed
        # Ours, but of no use.
        await self.release(claimed)
        return None

    async def recycle(self, pod: SandboxPod, end_container: Callable[[], Awaitable[bool]]) -> None:
        """Give a pod back for another use: the operator frees it once a new container has proved clean.

        A pod that is not to be had so is deleted. Raises ApiError when that is forbidden.
        """
        if not (await self._mark_released(pod) and await end_container()):
            await self.release(pod)
        self.held.pop(pod.uid, None)

    async def _mark_released(self, pod: SandboxPod) -> bool:
        """Which container was used, said before it ends: an end that nobody announced is a failure."""
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": annotation_path(ANNOTATION_HOLDER), "value": self._holder},
            {"op": "add", "path": annotation_path(ANNOTATION_RELEASE), "value": pod.container_id},
        ]
        try:
            await self._api.request("PATCH", f"{self._path}/{pod.name}", body=patch, content_type=JSON_PATCH)
        except (ApiError, UnreachableError):
            return False
        return True

    async def release(self, pod: SandboxPod) -> None:
        """Delete the pod, if it is still the one that was claimed. Raises ApiError when that is forbidden."""
        self.held.pop(pod.uid, None)
        self._known[pod.uid] = pod.recycled
        for number in range(_RELEASE_TRIES):
            if number:
                await asyncio.sleep(_RETRY_SECONDS)
            if await self._delete(pod):
                return
        self.clean(self._delete_until_gone(pod))

    def hear(self, pod: SandboxPod) -> None:
        """The watch says that a pod has come or changed."""
        if pod.holder == self._holder:
            self._give_back_if_unknown(pod)
        elif pod.is_free:
            self.queue.dispatch(pod.image)

    def hear_all(self) -> None:
        """The watch has listed all pods anew."""
        listed = self._store.uids() | self.held.keys()
        self._known = {uid: use for uid, use in self._known.items() if uid in listed}
        for pod in self._store.held_by(self._holder):
            self._give_back_if_unknown(pod)
        self.queue.dispatch_all()

    def forget(self, uid: str) -> None:
        """The watch says that a pod is gone."""
        if uid not in self.held:
            self._known.pop(uid, None)

    def clean(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that its caller need not wait for; `drain` does."""
        task = asyncio.ensure_future(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)
        return task

    async def drain(self) -> None:
        """Wait for what is done behind the callers' backs. After `queue.stop` it does not wait for the server."""
        while self._cleaning:
            await asyncio.gather(*self._cleaning)

    async def _undo(self, attempt: "asyncio.Future[SandboxPod | None]") -> None:
        """Its caller gave up."""
        await asyncio.wait([attempt])
        if attempt.exception() is None and (pod := attempt.result()) is not None:
            await self.release(pod)

    def _give_back_if_unknown(self, pod: SandboxPod) -> None:
        is_known = self._known.get(pod.uid, -1) >= pod.recycled
        if not is_known and not pod.is_leaving and self.queue.stopped is None:
            self._known[pod.uid] = pod.recycled
            self.clean(self._delete_until_gone(pod))

    async def _patch(self, pod: SandboxPod) -> SandboxPod | None:
        patch = build_claim_patch(pod.uid, self._holder, self._wall_clock())
        try:
            answer = await self._api.request(
                "PATCH", f"{self._path}/{pod.name}", body=patch, content_type=JSON_PATCH, params=_NO_VALIDATION
            )
        except ApiError as error:
            return await self._handle_refusal(pod, error)
        except UnreachableError:
            return await self._find_out(pod)
        return parse_pod(answer)

    async def _handle_refusal(self, pod: SandboxPod, error: ApiError) -> SandboxPod | None:
        if error.is_passing:
            return await self._find_out(pod)
        # A failed test is 422; so is a policy's refusal, which would meet every other pod as well.
        if error.status not in (404, 409, 422) or "denied" in error.message:
            self.queue.give_back(pod)
            raise error
        self.num_lost_races += 1
        if error.status == 409:
            self.queue.give_back(pod)
        return None

    async def _find_out(self, pod: SandboxPod) -> SandboxPod | None:
        """The answer to a claim got lost: ask whose the pod is. Once the holder stops, its Lease's end settles it."""
        for number in itertools.count():
            if number and self.queue.stopped is not None:
                return None
            await asyncio.sleep(_RETRY_SECONDS if number else _ASK_AFTER_SECONDS)
            try:
                found = parse_pod(await self._api.request("GET", f"{self._path}/{pod.name}"))
            except ApiError as error:
                if error.status == 404:
                    return None
                if not error.is_passing:
                    raise
            except UnreachableError:
                pass
            else:
                break
        if found.uid == pod.uid and found.holder == self._holder:
            return found
        if found.uid == pod.uid and found.is_free:
            self.queue.give_back(pod)
        return None

    async def _delete(self, pod: SandboxPod) -> bool:
        """Whether it is settled. Raises ApiError."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        try:
            await self._api.request("DELETE", f"{self._path}/{pod.name}", body=body)
        except ApiError as error:
            if error.is_passing:
                return False
            if error.status not in (404, 409):  # gone, or another pod by now
                raise
        except UnreachableError:
            return False
        return True

    async def _delete_until_gone(self, pod: SandboxPod) -> None:
        """A holder that has stopped leaves the rest to the end of its Lease."""
        try:
            while not await self._delete(pod) and self.queue.stopped is None:
                await asyncio.sleep(_RETRY_SECONDS)
        except ApiError:
            self._known.pop(pod.uid, None)  # tried again when the watch next shows it
