"""Which image goes to which nodes: rendezvous hashing with a bounded load.

Rendezvous (highest random weight, Thaler and Ravishankar 1998) keeps images where they are when nodes come and go; the
bound (Mirrokni et al., arXiv 1608.01350) keeps any node from holding much more than its share.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b

LOAD_BOUND = 1.1
"""No node gets more than this times the mean, rounded up."""


def place(images: Sequence[str], nodes: Sequence[str], copies: int) -> dict[str, tuple[str, ...]]:
    """Node to its images, in the order given (order of need). More copies than nodes means every node."""
    placed: dict[str, list[str]] = {node: [] for node in nodes}
    if not nodes or copies <= 0:
        return {node: () for node in nodes}
    copies = min(copies, len(nodes))
    bound = math.ceil(LOAD_BOUND * len(images) * copies / len(nodes))
    for image in images:
        ranked = sorted(nodes, key=lambda node: _weight(image, node), reverse=True)
        fitting = [node for node in ranked if len(placed[node]) < bound]
        # Full nodes come last: an image is never left out for the sake of balance.
        chosen = (fitting + [node for node in ranked if node not in fitting])[:copies]
        for node in chosen:
            placed[node].append(image)
    return {node: tuple(found) for node, found in placed.items()}


def _weight(image: str, node: str) -> bytes:
    return blake2b(f"{image}\0{node}".encode(), digest_size=8).digest()
