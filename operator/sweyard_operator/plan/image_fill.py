"""Nodes for the copies that no node has: families together, the nodes of one step apart, all within the bound.

Large images first, as in any packing; where no node of the family and none near on the ring has room, the lightest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweyard_operator.plan.image_loads import Loads, Weighed
from sweyard_operator.plan.image_ring import Ring

FILL_BOUND = 1.04
"""Times the mean that is expected: below what relief allows, so that what is placed stays."""
_WALK = 64
"""Points of the ring to pass for one copy."""
_ROUNDS = 4


@dataclass(slots=True)
class _Family:
    """Where one family lives."""

    cursor: int
    left: int
    """Points of the ring not passed yet."""
    smallest_bytes: int
    homes: list[int] = field(default_factory=list)
    """Nodes with room, in the order in which it came to them."""


class Fill:
    """One filling of the nodes."""

    def __init__(self, loads: Loads, ring: Ring, families: Sequence[str], copies: int) -> None:
        self._loads = loads
        self._ring = ring
        self._copies = copies
        self._level = FILL_BOUND * expect_mean(loads.images, len(loads.shares), copies)
        smallest = [0] * len(families)
        for weighed in sorted(loads.images, key=lambda weighed: -weighed.own_bytes):
            smallest[weighed.family] = weighed.own_bytes
        self._families = [
            _Family(ring.find_start(name), len(ring.nodes), smallest[number]) for number, name in enumerate(families)
        ]

    def run(self) -> None:
        """Until each image has its copies."""
        loads = self._loads
        for node, held in enumerate(loads.held):
            for number in {loads.images[image].family for image in held}:
                self._families[number].homes.append(node)
        for image in sorted(range(len(loads.images)), key=lambda image: -loads.images[image].num_bytes):
            for _ in range(self._copies - len(loads.holders[image])):
                loads.put(self._choose(image), image)

    def _choose(self, image: int) -> int:
        family = self._families[self._loads.images[image].family]
        node = self._find_home(family, image)
        if node is None:
            node = self._walk(family, image)
        return self._loads.find_lightest(image) if node is None else node

    def _find_home(self, family: _Family, image: int) -> int | None:
        loads, homes, position = self._loads, family.homes, 0
        own_bytes = loads.images[image].own_bytes
        while position < min(_WALK, len(homes)):
            node = homes[position]
            room = loads.room(node, self._level)
            if room < family.smallest_bytes:
                del homes[position]  # no image of the family has room there any more
            elif room >= own_bytes and self._is_apart(node, image):
                return node
            else:
                position += 1
        return None

    def _walk(self, family: _Family, image: int) -> int | None:
        loads, nodes = self._loads, self._ring.nodes
        own_bytes = loads.images[image].own_bytes
        for _ in range(min(_WALK, family.left)):
            node = nodes[family.cursor]
            family.cursor = (family.cursor + 1) % len(nodes)
            family.left -= 1
            room = loads.room(node, self._level)
            if room < own_bytes or room < loads.added_bytes(node, image):
                continue
            if self._is_apart(node, image) and node not in family.homes:
                family.homes.append(node)
                return node
        return None

    def _is_apart(self, node: int, image: int) -> bool:
        """From its other copies, and from most of what is needed in the same step."""
        return node not in self._loads.holders[image] and not self._loads.is_crowded(node, image)


def expect_mean(images: Sequence[Weighed], num_nodes: int, copies: int) -> float:
    """Bytes a node, if each family takes as many nodes as it fills, but at least one for each copy."""
    own: dict[int, int] = {}
    shared: dict[int, int] = {}
    for weighed in images:
        own[weighed.family] = own.get(weighed.family, 0) + weighed.own_bytes * copies
        shared[weighed.family] = max(shared.get(weighed.family, 0), weighed.shared_bytes)
    mean = sum(own.values()) / num_nodes
    for _ in range(_ROUNDS):
        total = 0.0
        for family, num_bytes in own.items():
            room = max(mean - shared[family], mean / 4, 1.0)
            total += num_bytes + shared[family] * min(num_nodes, max(copies, -(-num_bytes // room)))
        mean = total / num_nodes
    return mean
