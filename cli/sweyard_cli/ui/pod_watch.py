"""PodWatch: the sandboxes of one pool, followed by one watch as long as somebody looks.

Listing thousands of pods anew each second would cost the API server more than the pool itself: of each only what is
drawn is kept, and after the first list only changes are sent.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import urllib3
from kubernetes import client

from sweyard_api.constants import LABEL_POOL
from sweyard_cli.cluster.connection import Connection
from sweyard_operator.observe.sandbox_pods import parse_pod
from sweyard_operator.plan.sandbox import SandboxPod

_PAGE = 500
_WATCH_SECONDS = 240
_PAUSE_SECONDS = 2.0


class PodWatch:
    """Begins with the first call of `pods`, and ends when nobody has called it for `idle_seconds`."""

    def __init__(
        self, connection: Connection, pool: Mapping[str, Any], *, idle_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._core = client.CoreV1Api(connection.api_client)
        self._namespace = str(pool["metadata"]["namespace"])
        self._pool = str(pool["metadata"]["name"])
        self._uid = str(pool["metadata"]["uid"])
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._pods: dict[str, SandboxPod] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted_at = clock()
        self.num_changes = 0
        """Differs when there is news."""

    @property
    def uid(self) -> str:
        """Of the pool: another one of its name needs another watch."""
        return self._uid

    def pods(self) -> list[SandboxPod]:
        """As last told. Raises what the first list raises."""
        self._wanted_at = self._clock()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                version = self._list()
                self._thread = threading.Thread(target=self._follow, args=(version,), daemon=True)
                self._thread.start()
            return list(self._pods.values())

    def _follow(self, version: str | None) -> None:
        """Until nobody looks. A connection that breaks, and a version that is too old, only cost a new list."""
        while self._clock() - self._wanted_at < self._idle_seconds:
            try:
                version = self._list() if version is None else version
                version = self._watch(version)
            except (client.ApiException, urllib3.exceptions.HTTPError, OSError):
                version = None
                threading.Event().wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        """All of them, a page at a time; the version to watch from."""
        found: dict[str, SandboxPod] = {}
        token = None
        while True:
            page = self._ask(limit=_PAGE, **({"_continue": token} if token else {}))
            answer = json.loads(page.data)
            found |= {pod["metadata"]["uid"]: parsed for pod in answer["items"] if (parsed := self._parse(pod))}
            token = answer["metadata"].get("continue")
            if not token:
                break
        self._pods = found
        self.num_changes += 1
        return str(answer["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str | None:
        """Take in changes; the version to go on from, None if there must be a list."""
        stream = self._ask(
            watch=True, resource_version=version, allow_watch_bookmarks=True, timeout_seconds=_WATCH_SECONDS
        )
        try:
            for event in _events(stream):
                if self._clock() - self._wanted_at >= self._idle_seconds:
                    return version
                if event["type"] == "ERROR":
                    return None
                version = str(event["object"]["metadata"]["resourceVersion"])
                self._take(event["type"], event["object"])
        finally:
            stream.close()  # what is unread of it is nobody's
        return version

    def _take(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        parsed = None if kind == "DELETED" else self._parse(pod)
        with self._lock:
            if parsed is None:
                self._pods.pop(pod["metadata"]["uid"], None)
            else:
                self._pods[pod["metadata"]["uid"]] = parsed
            self.num_changes += 1

    def _ask(self, **options: Any) -> Any:
        return self._core.list_namespaced_pod(
            self._namespace,
            label_selector=f"{LABEL_POOL}={self._pool}",
            _preload_content=False,
            _request_timeout=(10, _WATCH_SECONDS + 30),
            **options,
        )

    def _parse(self, pod: dict[str, Any]) -> SandboxPod | None:
        return parse_pod(self._pool, self._uid, pod)


def _events(stream: Any) -> Iterator[dict[str, Any]]:
    """Lines of JSON, however they were cut on their way."""
    rest = b""
    for chunk in stream.stream(amt=None, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines if line)
