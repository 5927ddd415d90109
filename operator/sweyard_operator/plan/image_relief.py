"""What must leave nodes that hold too much, and nothing else."""

import heapq
from collections.abc import Set

from sweyard_operator.plan.image_loads import Loads

_LEAST_GAIN = 1e-9
"""Relative: what rounding could give back is no gain."""


def relieve(loads: Loads, bound: float, kept: Set[tuple[int, int]], *, coarseness_bytes: int = 0) -> bool:
    """Move copies, but for those `kept`, off nodes above `bound` times the mean to the lightest, while that helps.

    A node that is above the mean by no more than `coarseness_bytes` is left alone.

    Returns whether anything moved: what moves may make room for what a node before it could not give, so this is to be
    done until nothing does. Each move leaves both its nodes below where the fuller one was: so that ends.
    """
    has_moved = False
    heavy = [(-loads.load(node), node) for node in range(len(loads.shares))]
    heapq.heapify(heavy)
    while heavy:
        negative, node = heapq.heappop(heavy)
        load = loads.load(node)
        if -negative != load:
            continue
        if load <= bound * loads.mean():
            break
        if load <= loads.mean() + coarseness_bytes / loads.shares[node]:
            continue
        target = _move_one(loads, node, kept)
        if target is not None:
            has_moved = True
            for changed in (node, target):
                heapq.heappush(heavy, (-loads.load(changed), changed))
    return has_moved


def exchange(loads: Loads, bound: float, kept: Set[tuple[int, int]]) -> bool:
    """Change images of nodes above `bound` times the mean, but for those `kept`, for smaller ones of light nodes.

    Returns whether anything moved; as with relieve, that ends.
    """
    heavy = [node for node in range(len(loads.shares)) if loads.load(node) > bound * loads.mean()]
    has_moved = [_swap_one(loads, node, kept) for node in heavy]
    return any(has_moved)


def _swap_one(loads: Loads, node: int, kept: Set[tuple[int, int]]) -> bool:
    """What is needed last of what may move, for what is needed first of a light node."""
    limit = loads.load(node) * (1.0 - _LEAST_GAIN)
    for target in loads.find_light():
        for image in sorted(loads.held[node] - loads.held[target], reverse=True):
            for other in sorted(loads.held[target] - loads.held[node]):
                if (node, image) in kept or (target, other) in kept:
                    continue
                after = loads.load(node, loads.swapped_bytes(node, image, other))
                if after < limit and loads.load(target, loads.swapped_bytes(target, other, image)) < limit:
                    for place, old, new in ((node, image, other), (target, other, image)):
                        loads.take(place, old)
                        loads.put(place, new)
                    return True
    return False


def _move_one(loads: Loads, node: int, kept: Set[tuple[int, int]]) -> int | None:
    """Move what is needed last of what may move; returns whereto."""
    limit = loads.load(node) * (1.0 - _LEAST_GAIN)
    for image in sorted(loads.held[node], reverse=True):
        if (node, image) in kept or len(loads.holders[image]) == len(loads.shares):
            continue
        target = loads.find_lightest(image)
        after = loads.load(target, loads.added_bytes(target, image))
        if after < limit and loads.load(node, -loads.freed_bytes(node, image)) < limit:
            loads.take(node, image)
            loads.put(target, image)
            return target
    return None
