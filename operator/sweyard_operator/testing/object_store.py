"""Objects with versions, generations, field managers and a history: etcd and the registry in miniature."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sweyard_operator.resources import Manifest, Resource, labels_of, name_of, namespace_of
from sweyard_operator.testing.copying import copied

Address = tuple[Resource, str | None, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One write, as a watch tells it."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    object: Manifest
    before: Manifest | None = None
    """What a MODIFIED changed."""

    def told_to(self, namespace: str | None, selector: str) -> "Change | None":
        """As a watch with that selector tells it: what matches no more is deleted to it, as it was before."""
        if matches(self.object, namespace, selector):
            return self
        if self.before is None or not matches(self.before, namespace, selector):
            return None
        last = {**self.before, "metadata": {**self.before["metadata"], "resourceVersion": str(self.version)}}
        return replace(self, type="DELETED", object=last)


class ObjectStore:
    """All writes go through `put` and `remove`. `timestamp` gives RFC 3339 times."""

    def __init__(self, timestamp: Callable[[], str]) -> None:
        self._timestamp = timestamp
        self._applied: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.objects: dict[Address, dict[str, Any]] = {}
        self.history: list[Change] = []
        self.version = 100

    def get(self, address: Address) -> dict[str, Any] | None:
        """A copy of the object."""
        return copied(self.objects.get(address))

    def create(self, resource: Resource, manifest: Manifest) -> dict[str, Any]:
        """Store a new object; the caller has checked that there is none of its name."""
        item = copied(dict(manifest))
        item["metadata"] = {
            **item["metadata"],
            "uid": str(uuid.UUID(int=len(self.history) + 1)),
            "creationTimestamp": self._timestamp(),
            # As on a real server: plain data has none.
            **({"generation": 1} if "spec" in item else {}),
        }
        return self._write(resource, item, "ADDED")

    def put(self, resource: Resource, item: dict[str, Any]) -> dict[str, Any]:
        """Store a changed object, unless nothing changed."""
        known = self.objects[resource, namespace_of(item), name_of(item)]
        item["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
        if item == known:
            return copied(known)
        if item.get("spec") != known.get("spec"):
            item["metadata"]["generation"] = known["metadata"]["generation"] + 1
        return self._write(resource, item, "MODIFIED", before=copied(known))

    def remove(self, address: Address) -> dict[str, Any]:
        """Delete for good."""
        item = self.objects.pop(address)
        return self._log(address[0], item, "DELETED")

    def _write(
        self,
        resource: Resource,
        item: dict[str, Any],
        kind: Literal["ADDED", "MODIFIED"],
        before: Manifest | None = None,
    ) -> dict[str, Any]:
        self.objects[resource, namespace_of(item), name_of(item)] = item
        return self._log(resource, item, kind, before)

    def _log(
        self,
        resource: Resource,
        item: dict[str, Any],
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        before: Manifest | None = None,
    ) -> dict[str, Any]:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, kind, resource, copied(item), before))
        return copied(item)

    def apply(self, known: dict[str, Any], manifest: Manifest, manager: str) -> dict[str, Any]:
        """Server-side apply over `known`: what this manager no longer names goes, what it names is set."""
        owner = (known["metadata"]["uid"], manager)
        part = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
        merged: dict[str, Any] = _without(known, self._applied.get(owner, {}), part)
        self._applied[owner] = copied(part)
        result: dict[str, Any] = _merged(merged, part)
        return result

    def emptied_map(self, known: Manifest, manifest: Manifest, manager: str) -> str | None:
        """Path of a map that would lose all its entries by being applied as {}: a real server makes null of it."""
        return _emptied(self._applied.get((known["metadata"]["uid"], manager), {}), manifest, "")

    def as_of(self, version: int, resource: Resource, namespace: str | None, selector: str) -> list[Manifest]:
        """The matching objects as they were after the write of that version."""
        found: dict[tuple[str | None, str], Manifest] = {}
        for change in self.history:
            if change.version > version:
                break
            if change.resource == resource and (told := change.told_to(namespace, selector)) is not None:
                key = (namespace_of(change.object), name_of(change.object))
                if told.type == "DELETED":
                    found.pop(key, None)
                else:
                    found[key] = change.object
        return [copied(found[key]) for key in sorted(found, key=str)]


def matches(item: Manifest, namespace: str | None, selector: str) -> bool:
    """Namespace (None: any) and label selector of the forms `a`, `a=b`, joined by commas."""
    if namespace is not None and namespace_of(item) != namespace:
        return False
    labels = labels_of(item)
    terms = (term.partition("=") for term in selector.split(",") if term)
    return all(labels.get(label) == value if equals else label in labels for label, equals, value in terms)


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, Mapping):
        return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
    return copied(over)


def _without(base: Any, before: Any, now: Any) -> Any:
    """`base` without the fields that were in `before` and are not in `now`."""
    if not isinstance(base, dict) or not isinstance(before, Mapping):
        return base
    kept = {}
    for key, value in base.items():
        if key not in before:
            kept[key] = value
        elif isinstance(now, Mapping) and key in now:
            kept[key] = _without(value, before[key], now[key])
        elif (
            isinstance(value, dict) and isinstance(before[key], Mapping) and (rest := _without(value, before[key], {}))
        ):
            kept[key] = rest
    return kept


def _emptied(before: Any, now: Any, path: str) -> str | None:
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return None
    if before and not now:
        return path.removeprefix(".")
    found = (_emptied(before[key], value, f"{path}.{key}") for key, value in now.items() if key in before)
    return next((entry for entry in found if entry is not None), None)
