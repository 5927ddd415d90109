"""PodWatch: what the API server says of the pool's running pods, by list and watch."""

import asyncio
import contextlib
from typing import Any, Protocol

from sweyard_api.constants import LABEL_POOL
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pods import SandboxPod, parse_pod
from sweyard_sandbox.pool.store import PodStore

RUNNING = "status.phase=Running"
"""Only these can be claimed. What each pod goes through before is told to the operator, not to every holder."""
_WATCH_SECONDS = 240
_SILENCE_SECONDS = 130.0
"""Two bookmarks, which come each minute, are missing: a silent watch is dead, whatever its socket says."""
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
"""Between two watches, should a server end each at once."""


class Listener(Protocol):
    """Told after the store has changed."""

    def hear(self, pod: SandboxPod) -> None:
        """A pod has come or changed."""

    def forget(self, uid: str) -> None:
        """A pod is gone."""

    def hear_all(self) -> None:
        """Anything may have changed."""


class PodWatch:
    """Keeps a PodStore up to date and tells a listener."""

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        pool: str,
        store: PodStore,
        listener: Listener,
        *,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self.last_error = ""
        """Why nothing is heard; empty while all is well."""
        self.is_listed = asyncio.Event()
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._params = {"labelSelector": f"{LABEL_POOL}={pool}", "fieldSelector": RUNNING}
        self._store = store
        self._listener = listener
        self._silence_seconds = silence_seconds
        self._version: str | None = None

    async def run(self) -> None:
        """Watch until cancelled. Raises ApiError when the server forbids it."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
                await asyncio.sleep(_PAUSE_SECONDS)
            except ApiError as error:
                if error.status in (403, 404) or (error.status == 401 and self._version is None):
                    raise
                self._version = None  # 410 Gone, above all: start over with a list, which takes a fresh token
                self.last_error = str(error)
                await asyncio.sleep(_PAUSE_SECONDS if error.status == 410 else _RETRY_SECONDS)
            except UnreachableError as error:
                self.last_error = str(error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(self) -> None:
        answer = await self._api.request("GET", self._path, params=self._params)
        self._store.replace_all(map(parse_pod, answer.get("items") or ()))
        self._version = answer["metadata"]["resourceVersion"]
        self.last_error = ""
        self.is_listed.set()
        self._listener.hear_all()

    async def _watch(self) -> None:
        """Follow until the server ends the watch, which it does now and then."""
        params = self._params | {
            "watch": "1",
            "resourceVersion": self._version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        events = self._api.stream(self._path, params, silence_seconds=self._silence_seconds, on_open=self._forget_error)
        async with contextlib.aclosing(events):
            async for event in events:
                self._apply(event)

    def _forget_error(self) -> None:
        self.last_error = ""

    def _apply(self, event: dict[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise ApiError(item.get("code", 500), item.get("reason", ""), item.get("message", ""))
        self._version = item["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            uid = item["metadata"]["uid"]
            self._store.remove(uid)
            self._listener.forget(uid)
        else:
            pod = parse_pod(item)
            self._store.put(pod)
            self._listener.hear(pod)
