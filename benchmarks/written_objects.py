"""Each version of each object that a namespace is given, as the API server's watches tell it: how many, how large."""

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field

from sweyard_operator.cluster import Cluster
from sweyard_operator.errors import StreamDeadError
from sweyard_operator.observe.image_cache import LABEL_ROLE
from sweyard_operator.resources import Manifest, Resource, labels_of


@dataclass(slots=True)
class WrittenObjects:
    """Whoever wrote them; of a ConfigMap of an ImageCache the role counts for its kind."""

    largest_bytes: int = 0
    """As JSON."""
    num_versions: Counter[str] = field(default_factory=Counter)
    """By kind."""

    async def follow(self, cluster: Cluster, resource: Resource, namespace: str) -> None:
        """For ever. Raises what Cluster.watch raises: a version that was missed would not count."""
        present, version = await cluster.list(resource, namespace)
        for item in present:
            self._count(item)
        while True:
            # Events are not in the API server's watch cache and so have no bookmarks: silence is no fault there, and a
            # watch from the last version misses nothing.
            with contextlib.suppress(StreamDeadError):
                async for event in cluster.watch(resource, namespace, resource_version=version):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type in ("ADDED", "MODIFIED"):
                        self._count(event.object)

    def _count(self, item: Manifest) -> None:
        self.num_versions[labels_of(item).get(LABEL_ROLE, item["kind"])] += 1
        self.largest_bytes = max(self.largest_bytes, len(json.dumps(item)))
