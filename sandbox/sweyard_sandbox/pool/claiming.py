"""Claims: takes free pods by one JSON patch each. The API server is the lock: the patch tests the pod's UID and that
its holder is empty, so of two holders one gets the pod and the other an error.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from sweyard_api.constants import ANNOTATION_CLAIMED_AT, ANNOTATION_HOLDER
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.api import JSON_PATCH, ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod
from sweyard_sandbox.pool.store import PodStore

_RETRY_SECONDS = 0.5


def build_claim_patch(uid: str, holder: str, now: datetime) -> list[dict[str, str]]:
    """The claim itself."""
    holder_path, claimed_at_path = (_annotation_path(name) for name in (ANNOTATION_HOLDER, ANNOTATION_CLAIMED_AT))
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": holder_path, "value": ""},
        {"op": "replace", "path": holder_path, "value": holder},
        {"op": "add", "path": claimed_at_path, "value": now.strftime("%Y-%m-%dT%H:%M:%SZ")},
    ]


class Claims:
    """One holder's claims; waiting ones are served in order, per image."""

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
        self.held: dict[str, SandboxPod] = {}
        """By UID."""
        self.num_lost_races = 0
        self._api = api
        self._store = store
        self._demand = demand
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._holder = holder
        self._wall_clock = wall_clock
        self._waiting: dict[str, deque[asyncio.Future[SandboxPod]]] = {}
        self.stopped: InfrastructureError | None = None
        """Why nothing can be claimed any more."""
        self._cleaning: set[asyncio.Task[None]] = set()

    async def claim(self, image: str) -> SandboxPod:
        """Claim a pod of `image`, waiting for one to be free; a cancelled call holds nothing.

        Raises ApiError when the server refuses for good, InfrastructureError when the holder has stopped.
        """
        first = True
        while True:
            candidate = await self._next_candidate(image, first=first)
            first = False
            attempt = asyncio.ensure_future(self._try(candidate))
            try:
                pod = await asyncio.shield(attempt)
            except asyncio.CancelledError:
                attempt.add_done_callback(self._release_unwanted)
                raise
            if pod is not None:
                self._demand.consume(image)
                return pod

    async def release(self, pod: SandboxPod) -> None:
        """Delete the pod, if it is still the one that was claimed."""
        self.held.pop(pod.uid, None)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        for _ in range(10):
            try:
                await self._api.request("DELETE", f"{self._path}/{pod.name}", body=body)
                return
            except ApiError as error:
                if error.status in (404, 409):
                    return  # gone, or another pod by now
                if not error.is_passing:
                    raise
            except UnreachableError:
                pass
            await asyncio.sleep(_RETRY_SECONDS)

    def dispatch(self) -> None:
        """Hand free pods to those who wait; called after every change of the store."""
        for image, queue in list(self._waiting.items()):
            while queue:
                if queue[0].done():  # cancelled
                    queue.popleft()
                elif (pod := self._store.take(image)) is not None:
                    queue.popleft().set_result(pod)
                else:
                    break
            if not queue:
                del self._waiting[image]

    def stop(self, error: InfrastructureError) -> None:
        """Fail all who wait, now and later."""
        self.stopped = self.stopped or error
        for queue in self._waiting.values():
            for future in queue:
                if not future.done():
                    future.set_exception(error)
        self._waiting.clear()

    async def drain(self) -> None:
        """Wait for attempts whose callers gave up."""
        while self._cleaning:
            await asyncio.gather(*self._cleaning)

    async def _next_candidate(self, image: str, *, first: bool) -> SandboxPod:
        if self.stopped is not None:
            raise self.stopped
        if image not in self._waiting and (pod := self._store.take(image)) is not None:
            return pod
        future: asyncio.Future[SandboxPod] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(image, deque())
        # Who lost a race waited longest.
        (queue.append if first else queue.appendleft)(future)
        self._demand.begin_waiting(image)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._store.give_back(future.result().uid)
                self.dispatch()
            raise
        finally:
            self._demand.end_waiting(image)

    async def _try(self, pod: SandboxPod) -> SandboxPod | None:
        """The pod if it is ours now; None if it is not to be had."""
        patch = build_claim_patch(pod.uid, self._holder, self._wall_clock())
        try:
            answer = await self._api.request("PATCH", f"{self._path}/{pod.name}", body=patch, content_type=JSON_PATCH)
        except ApiError as error:
            return await self._handle_refusal(pod, error)
        except UnreachableError:
            return await self._find_out(pod)
        return await self._accept(parse_pod(answer))

    async def _handle_refusal(self, pod: SandboxPod, error: ApiError) -> SandboxPod | None:
        if error.is_passing:
            return await self._find_out(pod)
        # A failed test is 422; so is a policy's refusal, which would meet every other pod as well.
        if error.status not in (404, 409, 422) or "denied" in error.message:
            self._store.give_back(pod.uid)
            raise error
        if error.status == 409:
            self._store.give_back(pod.uid)
        self.num_lost_races += 1
        return None

    async def _find_out(self, pod: SandboxPod) -> SandboxPod | None:
        """The answer to a claim got lost: ask whose the pod is."""
        while True:
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
            await asyncio.sleep(_RETRY_SECONDS)
        if found.uid == pod.uid and found.holder == self._holder:
            return await self._accept(found)
        if found.uid == pod.uid and found.is_free:
            self._store.give_back(pod.uid)
        return None

    async def _accept(self, pod: SandboxPod) -> SandboxPod | None:
        """A pod that is being deleted or no longer Ready is of no use, though it is ours."""
        if pod.is_leaving or not pod.is_ready:
            await self.release(pod)
            return None
        self.held[pod.uid] = pod
        return pod

    def _release_unwanted(self, attempt: "asyncio.Future[SandboxPod | None]") -> None:
        if attempt.cancelled() or attempt.exception() is not None:
            return
        if (pod := attempt.result()) is not None:
            task = asyncio.ensure_future(self.release(pod))
            self._cleaning.add(task)
            task.add_done_callback(self._cleaning.discard)


def _annotation_path(name: str) -> str:
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
