"""Bytes on nodes while images are put on them and taken off: layers that a family shares count once a node."""

import heapq
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass

_STEP_IMAGES = 16
"""Neighbours in the order of need that one step of a run is taken to want at once."""
_LOOKS = 16
"""Light nodes to choose from."""

_TOLERANCE = 0.03
"""Of the mean: no difference between loads."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One image by number."""

    family: int
    own_bytes: int
    shared_bytes: int
    """Of layers that all images of its family have."""

    @property
    def num_bytes(self) -> int:
        """Of the whole image."""
        return self.own_bytes + self.shared_bytes


class Loads:
    """Nodes and images by number; `shares` are the nodes' parts of the cluster, 1.0 on average."""

    def __init__(self, images: Sequence[Weighed], shares: Sequence[float], copies: int) -> None:
        self.images = images
        self.shares = shares
        self.holders: list[set[int]] = [set() for _ in images]
        self.held: list[set[int]] = [set() for _ in shares]
        self._bytes = [0] * len(shares)
        self._total_bytes = 0
        # By node: images of each family, and of each step.
        self._relatives: list[dict[int, int]] = [defaultdict(int) for _ in shares]
        self._in_step: list[dict[int, int]] = [defaultdict(int) for _ in shares]
        self._step_quota = [max(1, -(-_STEP_IMAGES * copies * share // len(shares))) for share in shares]
        self._light = [(0.0, node) for node in range(len(shares))]

    def added_bytes(self, node: int, image: int) -> int:
        """What `image` would add to `node`."""
        weighed = self.images[image]
        return weighed.own_bytes if self._relatives[node].get(weighed.family) else weighed.num_bytes

    def freed_bytes(self, node: int, image: int) -> int:
        """What `node` would be rid of without `image`."""
        weighed = self.images[image]
        return weighed.own_bytes if self._relatives[node][weighed.family] > 1 else weighed.num_bytes

    def swapped_bytes(self, node: int, image: int, other: int) -> int:
        """What `node` would have more with `other`, which it has not, in the place of `image`."""
        if self.images[image].family == self.images[other].family:
            return self.images[other].own_bytes - self.images[image].own_bytes
        return self.added_bytes(node, other) - self.freed_bytes(node, image)

    def load(self, node: int, more_bytes: int = 0) -> float:
        """Bytes on a node for its share, and what it would be with more or less of them."""
        return (self._bytes[node] + more_bytes) / self.shares[node]

    def room(self, node: int, level: float) -> float:
        """Bytes that `node` may take until its load is `level`."""
        return level * self.shares[node] - self._bytes[node]

    def mean(self) -> float:
        """Bytes on a node of share 1.0, were they spread evenly."""
        return self._total_bytes / len(self.shares)

    def is_crowded(self, node: int, image: int) -> bool:
        """The node has its part of the images that are needed in the same step."""
        return self._in_step[node].get(image // _STEP_IMAGES, 0) >= self._step_quota[node]

    def put(self, node: int, image: int) -> None:
        """One copy more."""
        self._change(node, image, self.added_bytes(node, image), 1)
        self.holders[image].add(node)
        self.held[node].add(image)

    def take(self, node: int, image: int) -> None:
        """One copy less."""
        self._change(node, image, -self.freed_bytes(node, image), -1)
        self.holders[image].discard(node)
        self.held[node].discard(image)

    def _change(self, node: int, image: int, num_bytes: int, count: int) -> None:
        self._bytes[node] += num_bytes
        self._total_bytes += num_bytes
        self._relatives[node][self.images[image].family] += count
        self._in_step[node][image // _STEP_IMAGES] += count
        heapq.heappush(self._light, (self.load(node), node))

    def find_light(self) -> list[int]:
        """Some of the lightest nodes, the lightest first."""
        return self._peek_light(set())

    def find_lightest(self, image: int) -> int:
        """The node that `image` leaves lightest, or one about as light that is not crowded. One must be without it."""
        seen = self._peek_light(self.holders[image])
        after = {node: self._load_with(node, image) for node in seen if node not in self.holders[image]}
        limit = min(after.values()) + _TOLERANCE * self.mean()
        near = [node for node in after if after[node] <= limit]
        return min(near, key=lambda node: (self.is_crowded(node, image), after[node], node))

    def _peek_light(self, holders: Set[int]) -> list[int]:
        """The lightest first, until enough are none of `holders`; entries that are no longer true are dropped."""
        seen: dict[int, None] = {}
        num_free = 0
        while self._light and num_free < _LOOKS:
            load, node = heapq.heappop(self._light)
            if load == self.load(node) and node not in seen:
                seen[node] = None
                num_free += node not in holders
        for node in seen:
            heapq.heappush(self._light, (self.load(node), node))
        return list(seen)

    def _load_with(self, node: int, image: int) -> float:
        return self.load(node, self.added_bytes(node, image))
