"""The only module that talks to the API server.

Errors are typed; what may pass (429, 5xx, no reply) is retried here, by the server's own Retry-After. All names are
deterministic, so a repeated create that had succeeded answers AlreadyExists and never makes a second object.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sweyard_api.constants import FIELD_MANAGER_OPERATOR
from sweyard_api.json_in_yaml import json_in_yaml
from sweyard_operator.contact import Contact
from sweyard_operator.errors import OUTAGES, NotFoundError, UnreachableError, api_error, is_admission
from sweyard_operator.plan.plan import Deletion, Patch
from sweyard_operator.resources import Manifest, Resource, name_of, namespace_of, resource_of
from sweyard_operator.transport import Response, Transport

_PAGE_SIZE = 500
_MAX_ATTEMPTS = 6
_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 8.0
_WATCH_SECONDS = 300
_WATCH_IDLE_SECONDS = 90.0
"""Bookmarks come about once a minute; a watch silent for longer is dead."""
_RETRIED = (429, 500, 502, 503, 504)

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Page = tuple[list[Manifest], str]
"""Objects of a list, and its resourceVersion."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch; `object` of a BOOKMARK has nothing but its resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Manifest


class Cluster:
    """Typed verbs over a transport."""

    def __init__(self, transport: Transport, contact: Contact, *, randomness: random.Random) -> None:
        self._transport = transport
        self._random = randomness
        self.contact = contact

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest:
        """The object as it is now (a quorum read). Raises NotFoundError."""
        return await self._json("GET", resource.path(namespace, name))

    async def find(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """The object as it is now, or None."""
        try:
            return await self.get(resource, namespace, name)
        except NotFoundError:
            return None

    async def list(
        self, resource: Resource, namespace: str | None, *, label_selector: str = "", field_selector: str = ""
    ) -> Page:
        """All objects that match, and the resourceVersion to watch from."""
        items: list[Manifest] = []
        version = ""
        pages = self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector)
        async for page, at in pages:
            items += page
            version = at
        return items, version

    async def pages(
        self, resource: Resource, namespace: str | None, *, label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Page]:
        """The same list in parts, all with the same resourceVersion. Raises GoneError if that takes minutes."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {"limit": str(_PAGE_SIZE), **{name: value for name, value in selectors.items() if value}}
        while True:
            page = await self._json("GET", resource.path(namespace), params=params)
            # Items of a list carry no kind of their own.
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            yield [{**kind, **item} for item in page["items"]], str(page["metadata"]["resourceVersion"])
            if not (token := page["metadata"].get("continue")):
                return
            params = {**params, "continue": token}

    async def watch(
        self, resource: Resource, namespace: str | None, *, label_selector: str = "", resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, until the server ends the stream (normal after minutes).

        Raises GoneError when that version is forgotten, StreamDeadError or UnreachableError when the stream broke.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            # Jitter, so that all watches of a process do not end together.
            "timeoutSeconds": str(int(_WATCH_SECONDS * self._random.uniform(1.0, 2.0))),
            **({"labelSelector": label_selector} if label_selector else {}),
        }
        stream = self._transport.stream(
            resource.path(namespace), params=params, idle_timeout_seconds=_WATCH_IDLE_SECONDS
        )
        try:
            async for line in stream:
                self.contact.heard(None)
                if not line:
                    continue
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise api_error(int(event["object"].get("code", 500)), json.dumps(event["object"]).encode(), {})
                yield WatchEvent(event["type"], event["object"])
        except OUTAGES as error:
            self.contact.failed(error)
            raise

    async def create(self, manifest: Manifest, *, is_strict: bool = False) -> Manifest:
        """POST; strictly, fields that the server does not know are refused instead of left out.

        Raises AlreadyExistsError, ForbiddenError, InvalidError.
        """
        path = resource_of(manifest).path(namespace_of(manifest))
        params = {"fieldManager": FIELD_MANAGER_OPERATOR, "fieldValidation": "Strict" if is_strict else "Ignore"}
        return await self._json("POST", path, params=params, body=manifest)

    async def apply(self, manifest: Manifest, *, subresource: str | None = None) -> Manifest:
        """Server-side apply under the operator's field manager, taking over contested fields.

        With metadata.uid set it never creates, and raises ConflictError if the object is another one by now.
        """
        path = resource_of(manifest).path(namespace_of(manifest), name_of(manifest), subresource)
        params = {"fieldManager": FIELD_MANAGER_OPERATOR, "force": "true"}
        return await self._json("PATCH", path, params=params, body=manifest, content_type=APPLY)

    async def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Mapping[str, Any]
    ) -> Manifest:
        """JSON merge patch; a metadata.resourceVersion in it is a precondition."""
        path = resource.path(namespace, name)
        params = {"fieldManager": FIELD_MANAGER_OPERATOR}
        return await self._json("PATCH", path, params=params, body=patch, content_type=MERGE_PATCH)

    async def json_patch(self, patch: Patch) -> Manifest:
        """JSON patch. Raises InvalidError when one of its tests fails, NotFoundError, ConflictError."""
        path = patch.resource.path(patch.namespace, patch.name, patch.subresource)
        params = {"fieldManager": FIELD_MANAGER_OPERATOR}
        return await self._json("PATCH", path, params=params, body=patch.operations, content_type=JSON_PATCH)

    async def replace(self, manifest: Manifest) -> Manifest:
        """PUT. Raises ConflictError if metadata.resourceVersion is not the present one."""
        path = resource_of(manifest).path(namespace_of(manifest), name_of(manifest))
        return await self._json("PUT", path, body=manifest)

    async def delete(self, deletion: Deletion) -> None:
        """Delete under preconditions. Raises NotFoundError, ConflictError."""
        preconditions = {"uid": deletion.uid}
        if deletion.resource_version is not None:
            preconditions["resourceVersion"] = deletion.resource_version
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": deletion.propagation,
        }
        if deletion.grace_period_seconds is not None:
            options["gracePeriodSeconds"] = deletion.grace_period_seconds
        await self._json("DELETE", deletion.resource.path(deletion.namespace, deletion.name), body=options)

    async def served_plurals(self, api_version: str) -> set[str]:
        """Plural names of the kinds the server has under a group version. Raises NotFoundError if it has none."""
        answer = await self._json("GET", f"/apis/{api_version}")
        return {str(entry["name"]) for entry in answer["resources"]}

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        data = None if body is None else json_in_yaml(body).encode()
        try:
            reply = await self._retrying(method, path, params or {}, data, content_type)
            if reply.status >= 400:
                raise api_error(reply.status, reply.body, reply.headers)
        except OUTAGES as error:
            self.contact.failed(error)
            raise
        answer: dict[str, Any] = json.loads(reply.body)
        return answer

    async def _retrying(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None, content_type: str
    ) -> Response:
        """The first reply that is not a passing trouble, or the last trouble. Raises UnreachableError."""
        for attempt in range(_MAX_ATTEMPTS):
            is_last = attempt == _MAX_ATTEMPTS - 1
            retry_after = ""
            try:
                reply = await self._transport.request(method, path, params=params, body=body, content_type=content_type)
            except UnreachableError:
                if is_last:
                    raise
            else:
                is_answer = reply.status not in _RETRIED or is_admission(reply.status, reply.body)
                self.contact.heard(reply.headers.get("Date"), serves=is_answer)
                if is_answer or is_last:
                    return reply
                retry_after = reply.headers.get("Retry-After", "")
            await asyncio.sleep(self._delay_seconds(attempt, retry_after))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _delay_seconds(self, attempt: int, retry_after: str) -> float:
        backoff = min(_BACKOFF_SECONDS * 2.0**attempt, _MAX_BACKOFF_SECONDS)
        asked = float(retry_after) if retry_after.isdigit() else 0.0
        return max(asked, backoff) * self._random.uniform(1.0, 1.5)
