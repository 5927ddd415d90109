"""A local copy of all objects of one kind and selector, kept by a watch of its own.

Invariants: an object never goes back to an older resourceVersion, nor from deleted to alive; what `remember` put in (a
reply to our own write) is not lost to a list or watch that lags behind it; per event the work is one index update and
one call of listeners. Whatever a watch may have lost comes back with the list that follows the watch's end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from sweyard_operator.cluster import Cluster, WatchEvent
from sweyard_operator.errors import ApiError, GoneError, OperatorError, StreamDeadError, log_level
from sweyard_operator.resources import Manifest, Resource, labels_of, name_of, namespace_of
from sweyard_operator.slim import slim

logger = logging.getLogger(__name__)

ObjectKey = tuple[str | None, str]
"""Namespace and name."""
Listener = Callable[[Manifest | None, Manifest | None], None]
"""Called with the object before and after; None for absent."""

_RETRY_SECONDS = 1.0


class Informer:
    """Objects of `resource` matching `label_selector` in one namespace (None: all), indexed by a label's value."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        *,
        namespace: str | None,
        label_selector: str,
        index_labels: tuple[str, ...],
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._label_selector = label_selector
        self._index_labels = index_labels
        self._clock = clock
        self._objects: dict[ObjectKey, Manifest] = {}
        self._index: dict[tuple[str, str | None, str], dict[str, Manifest]] = {}
        self._listeners: list[Listener] = []
        self._tombstones: dict[ObjectKey, int] = {}
        self._resource_version: str | None = None
        self._listed_at = 0
        self._heard_at = clock()
        self.resource = resource
        self.synced = asyncio.Event()
        """Set after the first list."""

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` at every change."""
        self._listeners.append(listener)

    def get(self, namespace: str | None, name: str) -> Manifest | None:
        """One object, as last heard."""
        return self._objects.get((namespace, name))

    def items(self) -> Iterable[Manifest]:
        """All objects, as last heard."""
        return self._objects.values()

    def labelled(self, namespace: str | None, label: str, value: str) -> Mapping[str, Manifest]:
        """Objects of a namespace whose (indexed) label has this value, by name."""
        return self._index.get((label, namespace, value), {})

    def silent_seconds(self) -> float:
        """Since this informer last heard the API server, bookmarks included."""
        return self._clock() - self._heard_at

    async def run(self) -> None:
        """List, then watch, for ever; a broken watch goes on from where it was, one that ended in peace lists again."""
        while True:
            try:
                if self._resource_version is None:
                    await self._list()
                await self._watch()
                self._resource_version = None
            except (GoneError, StreamDeadError) as error:
                logger.info("watch of %s: %s; listing again", self.resource.plural, error)
                self._resource_version = None
            except OperatorError as error:
                logger.log(log_level(error), "cannot watch %s: %s", self.resource.plural, error)
                if isinstance(error, ApiError):
                    self._resource_version = None
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(self) -> None:
        present: set[ObjectKey] = set()
        version = ""
        pages = self._cluster.pages(self.resource, self._namespace, label_selector=self._label_selector)
        # Page by page, so that thousands of whole objects are never in memory at once.
        async for items, at in pages:
            self._heard_at = self._clock()
            version = at
            for item in items:
                present.add((namespace_of(item), name_of(item)))
                self.remember(item)
        for key, known in list(self._objects.items()):
            # Newer than the list: our own write, which the list has not seen.
            if key not in present and _version(known) <= int(version):
                self._change(key, None)
        self._tombstones = {key: gone for key, gone in self._tombstones.items() if gone > int(version)}
        self._listed_at = int(version)
        self._resource_version = version
        self.synced.set()

    async def _watch(self) -> None:
        assert self._resource_version is not None
        events = self._cluster.watch(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            resource_version=self._resource_version,
        )
        async for event in events:
            self._heard_at = self._clock()
            self._hear(event)
            self._resource_version = str(event.object["metadata"]["resourceVersion"])

    def _hear(self, event: WatchEvent) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            self.remember(event.object)
        elif event.type == "DELETED":
            self._forget(event.object)

    def remember(self, new: Manifest) -> None:
        """Take in an object from a list, an event or a reply, unless a newer one is known."""
        key = (namespace_of(new), name_of(new))
        known = self._objects.get(key)
        # What is older than the list and was not in it is gone, whatever a late reply says.
        oldest = max(self._tombstones.get(key, 0), self._listed_at) if known is None else _version(known)
        if _version(new) > oldest:
            self._change(key, slim(new))

    def wants(self, item: Manifest) -> bool:
        """True if this informer's list would hold the item."""
        if self._namespace not in (None, namespace_of(item)):
            return False
        labels = labels_of(item)
        terms = (term.partition("=") for term in self._label_selector.split(",") if term)
        return all(labels.get(label) == value if equals else label in labels for label, equals, value in terms)

    def _forget(self, gone: Manifest) -> None:
        key = (namespace_of(gone), name_of(gone))
        known = self._objects.get(key)
        self._tombstones[key] = max(_version(gone), self._tombstones.get(key, 0))
        # A late DELETED of a predecessor must not remove its successor.
        if known is not None and _version(known) <= _version(gone):
            self._change(key, None, last=slim(gone))

    def _change(self, key: ObjectKey, new: Manifest | None, last: Manifest | None = None) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._unindex(key, old)
        if new is not None:
            self._objects[key] = new
            self._reindex(key, new)
        for listener in self._listeners:
            listener(last or old, new)

    def _reindex(self, key: ObjectKey, item: Manifest) -> None:
        for slot in self._slots(key, item):
            self._index.setdefault(slot, {})[key[1]] = item

    def _unindex(self, key: ObjectKey, item: Manifest) -> None:
        for slot in self._slots(key, item):
            bucket = self._index[slot]
            del bucket[key[1]]
            if not bucket:
                del self._index[slot]

    def _slots(self, key: ObjectKey, item: Manifest) -> list[tuple[str, str | None, str]]:
        labels = labels_of(item)
        return [(label, key[0], labels[label]) for label in self._index_labels if label in labels]


def _version(item: Manifest) -> int:
    """Resource versions of one kind are ordered integers (an API guarantee since Kubernetes 1.35)."""
    return int(item["metadata"]["resourceVersion"])
