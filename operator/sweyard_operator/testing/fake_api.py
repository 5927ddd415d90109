"""A Kubernetes API server in memory that can lie: a Transport for `cluster.py`, at the level of paths and bytes.

Knows list (paged), watch, create, get, replace, the four patches, the status subresource, delete with preconditions and
graceful deletion of bound pods. Garbage collection and nodes are played by `FakeNodes`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from sweyard_operator.conditions import rfc3339
from sweyard_operator.errors import StreamDeadError, UnreachableError, api_error
from sweyard_operator.resources import ALL, PODS, SERVICES, Manifest, Resource, name_of, namespace_of
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.object_store import Address, Change, ObjectStore
from sweyard_operator.testing.patches import PatchTestError, json_patch, merge_patch
from sweyard_operator.transport import Response

_EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
_BOOKMARK_SECONDS = 60.0


class FakeApiServer:
    """`store` is the truth; `lies` is what happens between it and the client."""

    def __init__(self, lies: Lies | None = None) -> None:
        self.lies = lies or Lies()
        self.store = ObjectStore(lambda: rfc3339(self.now()))
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request that arrived, in order."""
        self._changed = asyncio.Event()

    def now(self) -> datetime:
        """The server's wall clock, driven by the event loop's."""
        return _EPOCH + timedelta(seconds=asyncio.get_running_loop().time())

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Response:
        """One request, after what the lies do to it."""
        lies = self.lies
        await asyncio.sleep(lies.randomness.random() * lies.latency_seconds)
        if lies.is_down or lies.happens(lies.lost_request_rate):
            raise UnreachableError(f"{method} {path}: lost")
        if lies.happens(lies.throttle_rate):
            return self._status(429, "TooManyRequests", "slow down", {"Retry-After": "1"})
        if lies.happens(lies.error_rate) or path.rpartition("/")[2] in lies.unlistable:
            return self._status(500, "InternalError", "etcd leader changed")
        if method != "GET" and lies.happens(lies.conflict_rate):
            return self._status(409, "Conflict", "the object has been modified")
        if _parse(path)[0].plural in lies.unserved:
            return Response(404, {}, b"404 page not found\n")
        self.requests.append((method, path))
        if (refusal := lies.refusing.get(f"{method} {_parse(path)[0].plural}")) is not None:
            return self._status(refusal[0], "Refused", refusal[1])
        reply = self._serve(method, path, params, json.loads(body) if body else {}, content_type)
        if lies.is_down or lies.happens(lies.lost_reply_rate):
            raise UnreachableError(f"{method} {path}: reply lost")
        return reply

    def _serve(self, method: str, path: str, params: Mapping[str, str], body: Any, content_type: str) -> Response:
        resource, namespace, name, subresource = _parse(path)
        if name is None:
            return self._list(resource, namespace, params) if method == "GET" else self._post(resource, params, body)
        address = (resource, namespace, name)
        known = self.store.get(address)
        if known is None:
            if method == "PATCH" and "apply-patch" in content_type and "uid" not in body["metadata"]:
                return self._create(resource, body, manager=params["fieldManager"])
            return self._status(404, "NotFound", f'{resource.plural} "{name}" not found')
        if method == "GET":
            return self._ok(known)
        if method == "DELETE":
            return self._delete(address, known, body)
        return self._change(address, known, params, body, content_type, subresource)

    def _list(self, resource: Resource, namespace: str | None, params: Mapping[str, str]) -> Response:
        start, at = 0, self.store.version - self.lies.stale_revisions
        if token := params.get("continue"):
            start, at = (int(part) for part in token.split("@"))
        items = self.store.as_of(at, resource, namespace, params.get("labelSelector", ""))
        end = start + int(params.get("limit", "500"))
        metadata = {"resourceVersion": str(at), **({"continue": f"{end}@{at}"} if end < len(items) else {})}
        # As a real server: items of a list carry no kind.
        bare = [
            {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
            for item in items[start:end]
        ]
        return self._ok({"kind": f"{resource.kind}List", "metadata": metadata, "items": bare})

    def _post(self, resource: Resource, params: Mapping[str, str], body: Manifest) -> Response:
        unknown = self.lies.unknown_fields & set(body.get("spec") or {})
        if params.get("fieldValidation") == "Strict" and unknown:
            words = f'strict decoding error: unknown field "spec.{min(unknown)}"'
            return self._status(400, "BadRequest", words)
        return self._create(resource, body)

    def _create(self, resource: Resource, body: Manifest, manager: str | None = None) -> Response:
        address = (resource, namespace_of(body), name_of(body))
        if address in self.store.objects:
            return self._status(409, "AlreadyExists", f'{resource.plural} "{address[2]}" already exists')
        if resource == PODS:
            num_pods = sum(kind == PODS and namespace == address[1] for kind, namespace, _ in self.store.objects)
            if (words := self.lies.refusal(body, num_pods)) is not None:
                return self._status(403, "Forbidden", f'pods "{address[2]}" is forbidden: {words}')
        if resource == SERVICES:
            body = {**body, "spec": {"clusterIP": "10.96.0.7", **body["spec"]}}
        item = self.store.create(resource, body)
        if manager is not None:
            self.store.apply(item, body, manager)
        self._announce()
        return self._ok(item, 201)

    def _delete(self, address: Address, known: dict[str, Any], options: Mapping[str, Any]) -> Response:
        metadata = known["metadata"]
        for name, value in (options.get("preconditions") or {}).items():
            if metadata[name] != value:
                return self._status(409, "Conflict", f"Precondition failed: {name} in precondition: {value}")
        is_bound = address[0] == PODS and known["spec"].get("nodeName")
        if is_bound and options.get("gracePeriodSeconds") != 0:
            if "deletionTimestamp" not in metadata:
                grace = known["spec"].get("terminationGracePeriodSeconds", 30)
                metadata["deletionTimestamp"] = rfc3339(self.now() + timedelta(seconds=grace))
                self.store.put(address[0], known)
        else:
            self.store.remove(address)
        self._announce()
        return self._ok(known)

    def _change(
        self,
        address: Address,
        known: dict[str, Any],
        params: Mapping[str, str],
        body: Any,
        content_type: str,
        subresource: str | None,
    ) -> Response:
        wanted = body["metadata"] if isinstance(body, dict) and "metadata" in body else {}
        for name in ("uid", "resourceVersion"):
            if name in wanted and wanted[name] != known["metadata"][name]:
                return self._status(409, "Conflict", f"{name} is {known['metadata'][name]}, not {wanted[name]}")
        if "apply-patch" in content_type and (path := self.store.emptied_map(known, body, params["fieldManager"])):
            return self._status(422, "Invalid", f'{path}: Invalid value: "null": must be of type object: "null"')
        try:
            new = self._changed_object(known, body, params, content_type)
        except PatchTestError as error:
            return self._status(422, "Invalid", f"the server rejected our request: {error}")
        if self.lies.broken_rule and "json-patch" in content_type:
            what = f'{known["kind"]} "{known["metadata"]["name"]}"'
            return self._status(422, "Invalid", f"{what} is invalid: {self.lies.broken_rule}")
        # Each side of the status subresource sees only its own half.
        half = {"status"} if subresource == "status" else set(new) | set(known) - {"status"}
        halves = {key: new.get(key) if key in half else known.get(key) for key in {*new, *known}}
        item = self.store.put(address[0], {key: value for key, value in halves.items() if value is not None})
        self._announce()
        return self._ok(item)

    def _changed_object(
        self, known: dict[str, Any], body: Any, params: Mapping[str, str], content_type: str
    ) -> dict[str, Any]:
        copied: dict[str, Any] = json.loads(json.dumps(known))
        if "apply-patch" in content_type:
            return self.store.apply(copied, body, params["fieldManager"])
        if "json-patch" in content_type:
            return json_patch(copied, body)
        if "merge-patch" in content_type:
            merged: dict[str, Any] = merge_patch(copied, body)
            return merged
        return {**body, "metadata": {**copied["metadata"], **body["metadata"]}}

    async def stream(
        self, path: str, *, params: Mapping[str, str], idle_timeout_seconds: float
    ) -> AsyncIterator[bytes]:
        """A watch from a version on, after what the lies do to it."""
        resource, namespace, _, _ = _parse(path)
        lies, loop = self.lies, asyncio.get_running_loop()
        if lies.is_down:
            raise UnreachableError(f"watch of {path}: lost")
        if lies.happens(lies.gone_rate):
            gone = self._status(410, "Expired", "too old resource version")
            raise api_error(410, gone.body, {})
        version, ends_at = int(params["resourceVersion"]), loop.time() + float(params["timeoutSeconds"])
        held: list[Change] = []
        heard_at = loop.time()
        while loop.time() < ends_at:
            if lies.is_down or (held and lies.happens(lies.broken_watch_rate)):
                raise UnreachableError(f"watch of {path}: broke")
            held = [] if lies.deaf_watches else self._news(version, resource, namespace, params)
            for change in self._distorted(held):
                yield _line(change.type, change.object)
            version = max((change.version for change in held), default=version)
            if held:
                heard_at = loop.time()
            elif loop.time() - heard_at >= _BOOKMARK_SECONDS and not lies.deaf_watches:
                heard_at = loop.time()
                yield _line("BOOKMARK", {"kind": resource.kind, "metadata": {"resourceVersion": str(version)}})
            if loop.time() - heard_at > idle_timeout_seconds:
                raise StreamDeadError(f"watch of {path} was silent")
            await self._wait_for_change()

    def _news(self, version: int, resource: Resource, namespace: str | None, params: Mapping[str, str]) -> list[Change]:
        selector = params.get("labelSelector", "")
        news = (
            change.told_to(namespace, selector)
            for change in self.store.history[max(0, version - 100) :]
            if change.version > version and change.resource == resource
        )
        return [change for change in news if change is not None]

    def _distorted(self, changes: list[Change]) -> list[Change]:
        lies = self.lies
        told: list[Change] = []
        for change in changes:
            if lies.happens(lies.lost_event_rate):
                continue
            told += [change, change] if lies.happens(lies.duplicate_event_rate) else [change]
            if len(told) > 1 and lies.happens(lies.swapped_event_rate):
                told[-2:] = reversed(told[-2:])
        return told

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(5.0):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(0.001 + self.lies.randomness.random() * self.lies.latency_seconds)

    def _announce(self) -> None:
        """Wake all watches. Each waits on the event that it found, so none is missed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def delete_pod(self, pod: Manifest) -> None:
        """As a controller does, with the pod's own grace period; once is enough."""
        if "deletionTimestamp" not in pod["metadata"]:
            self._delete((PODS, namespace_of(pod), name_of(pod)), json.loads(json.dumps(pod)), {})

    def touch(self) -> None:
        """Tell watches of a change made directly in `store`."""
        self._announce()

    async def close(self) -> None:
        """Nothing to close."""

    def _ok(self, body: Mapping[str, Any], status: int = 200) -> Response:
        return Response(status, {"Date": format_datetime(self.now(), usegmt=True)}, json.dumps(body).encode())

    def _status(self, code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message}
        dated = {"Date": format_datetime(self.now(), usegmt=True), **(headers or {})}
        return Response(code, dated, json.dumps(body).encode())


def _parse(path: str) -> tuple[Resource, str | None, str | None, str | None]:
    """Resource, namespace, name and subresource of a URL path."""
    parts = path.strip("/").split("/")
    api_version, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = next(entry for entry in ALL if (entry.api_version, entry.plural) == (api_version, rest[0]))
    name, subresource = ([*rest[1:], None, None])[:2]
    return resource, namespace, name, subresource


def _line(kind: str, item: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()
