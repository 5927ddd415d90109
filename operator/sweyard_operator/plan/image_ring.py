"""A ring of virtual points (consistent hashing, Karger et al. 1997): where a family of images begins to look for nodes.

A node has points in proportion to its share of the cluster, so a ring of 1,000 nodes costs 8,000 hashes, once, where
rendezvous hashing costs one for each image and node.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b

_POINTS_PER_NODE = 8


class Ring:
    """Nodes by number, in the order of their points."""

    def __init__(self, names: Sequence[str], shares: Sequence[float]) -> None:
        points = sorted(
            (_hash(f"{name}\0{number}"), node)
            for node, (name, share) in enumerate(zip(names, shares, strict=True))
            for number in range(max(1, round(_POINTS_PER_NODE * share)))
        )
        self._hashes = [point for point, _ in points]
        self.nodes = tuple(node for _, node in points)

    def find_start(self, key: str) -> int:
        """Index into `nodes` of the first point at or after `key`'s."""
        return bisect_left(self._hashes, _hash(key)) % len(self.nodes)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
