"""Whose images are whose: pure.

Each image that an agent pulls is marked in the runtime with its cache. Marks outlive agents, reports and caches: what a
cache pulled that is gone falls to one that is left, whose agent may then evict it. Else the images of every run that
has ended would fill the disk until the kubelet's own collection, which budgets keep away.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

GONE_SECONDS = 120.0
"""Without an agent on the node for so long a cache is taken to be gone: one that is replaced is back sooner."""


@dataclass(slots=True)
class Ownership:
    """Of the images on one node, as one cache sees it."""

    keeper: str
    """This cache, with its namespace."""
    clock: Callable[[], float]
    _away_since: dict[str, float] = field(default_factory=dict)

    def others(self, marks: Mapping[str, str]) -> frozenset[str]:
        """The other caches that images were pulled for."""
        return frozenset(marks.values()) - {self.keeper}

    def find_heirless(self, marks: Mapping[str, str], living: Set[str]) -> tuple[str, ...]:
        """Images of caches that are gone, by name; `living` have an agent on the node."""
        now = self.clock()
        self._away_since = {one: self._away_since.get(one, now) for one in self.others(marks) - living}
        return tuple(image for image, one in marks.items() if now - self._away_since.get(one, now) >= GONE_SECONDS)
