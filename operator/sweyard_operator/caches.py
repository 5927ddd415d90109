"""All informers of the operator, shared by its controllers."""

import asyncio
from collections.abc import Callable, Iterable

from sweyard_api.constants import LABEL_CACHE, LABEL_POOL, LABEL_RUN
from sweyard_operator.cluster import Cluster
from sweyard_operator.informer import Informer, Listener
from sweyard_operator.resources import Manifest, Resource, name_of, namespace_of, resource_of

_INDEX_LABELS = (LABEL_RUN, LABEL_POOL, LABEL_CACHE)


class Caches:
    """Informers by kind and label selector; `namespaces` empty means the whole cluster."""

    def __init__(self, cluster: Cluster, namespaces: tuple[str, ...], clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._clock = clock
        self._informers: dict[tuple[Resource, str], list[Informer]] = {}

    def watch(self, resource: Resource, label_selector: str, listener: Listener | None = None) -> None:
        """Keep objects of `resource` that match; equal wishes share one watch. Before `run` only."""
        informers = self._informers.setdefault((resource, label_selector), [])
        if not informers:
            informers += [self._informer(resource, namespace, label_selector) for namespace in self._namespaces]
        for informer in informers:
            if listener is not None:
                informer.subscribe(listener)

    def _informer(self, resource: Resource, namespace: str | None, label_selector: str) -> Informer:
        return Informer(
            self._cluster,
            resource,
            namespace=namespace if resource.namespaced else None,
            label_selector=label_selector,
            index_labels=_INDEX_LABELS,
            clock=self._clock,
        )

    def _all(self, resource: Resource | None = None) -> Iterable[Informer]:
        for (kind, _), informers in self._informers.items():
            if resource is None or kind == resource:
                yield from informers

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """One object as last heard; None if it is absent or not watched."""
        found = (informer.get(namespace, name) for informer in self._all(resource))
        return next((item for item in found if item is not None), None)

    def labelled(self, resource: Resource, namespace: str, label: str, value: str) -> list[Manifest]:
        """Objects whose sweyard.dev/run, /pool or /cache label has this value, by name."""
        found: dict[str, Manifest] = {}
        for informer in self._all(resource):
            found.update(informer.labelled(namespace, label, value))
        return [found[name] for name in sorted(found)]

    def every(self, resource: Resource) -> list[Manifest]:
        """All watched objects of a kind, by name."""
        found = {name_of(item): item for informer in self._all(resource) for item in informer.items()}
        return [found[name] for name in sorted(found)]

    def within(self, resource: Resource, namespace: str) -> list[Manifest]:
        """All watched objects of a kind in one namespace, by name."""
        found = {
            name_of(item): item
            for informer in self._all(resource)
            for item in informer.items()
            if namespace_of(item) == namespace
        }
        return [found[name] for name in sorted(found)]

    def remember(self, item: Manifest) -> None:
        """Take in the reply to a write of ours, so that the next pass does not see an older world."""
        for informer in self._all(resource_of(item)):
            if informer.wants(item):
                informer.remember(item)

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all():
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")

    async def wait_synced(self) -> None:
        """Until every informer has listed once."""
        for informer in self._all():
            await informer.synced.wait()

    def is_synced(self) -> bool:
        """Every informer has listed once."""
        return all(informer.synced.is_set() for informer in self._all())

    def most_silent(self) -> tuple[str, float]:
        """The kind whose watch has been silent the longest, and for how many seconds."""
        silent = [(informer.silent_seconds(), informer.resource.plural) for informer in self._all()]
        seconds, plural = max(silent, default=(0.0, ""))
        return plural, seconds
