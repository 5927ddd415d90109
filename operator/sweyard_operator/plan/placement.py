"""Which image goes to which nodes, so that little moves when nodes come and go.

What a node holds stays there. What no node holds goes to nodes of its family, else to the next on a ring, all with a
bounded load in bytes (Mirrokni et al., arXiv 1608.01350). Only what is above the bound moves.

Invariants: each image is on min(copies, nodes) nodes; no node stays above LOAD_BOUND times the mean of its share, by
more than one image, while a lighter one could take what is too much; planned again from its own result, nothing moves.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.plan.image_fill import Fill
from sweyard_operator.plan.image_loads import Loads, Weighed
from sweyard_operator.plan.image_relief import exchange, relieve
from sweyard_operator.plan.image_ring import Ring

LOAD_BOUND = 1.15
"""What a node holds stays until it is more than this times the mean, and more than one image above the mean: of few
images a node, one that must go somewhere goes where it fits best, and nobody moves for it."""
FRESH_BOUND = 1.05
"""What is not on a node's disk yet goes elsewhere where it would make more than this times the mean."""
EXCHANGE_BOUND = 1.1
"""Where nothing fits elsewhere, a node with more than this times the mean gives such an image for a smaller one."""
_KNOWN_SHARE = 0.9
"""An image that cannot be pulled never tells its size."""


@dataclass(frozen=True, slots=True)
class CacheImage:
    """One image to place."""

    name: str
    num_bytes: int | None = None
    """Of the whole image; None while nobody has said."""
    shared_bytes: int = 0
    """Of these, in layers that its whole family has."""


@dataclass(frozen=True, slots=True)
class CacheNode:
    """One node to place images on."""

    name: str
    budget_bytes: int | None = None
    """What it may spend on images; None for as much as the others on average."""
    held: Collection[str] = ()
    """Images on its disk."""
    assigned: Collection[str] = ()
    """Images it has been told to hold."""


def place(images: Sequence[CacheImage], nodes: Sequence[CacheNode], copies: int) -> dict[str, tuple[str, ...]]:
    """Node to its images, in the order given (order of need). More copies than nodes means every node."""
    names = tuple(image.name for image in images)
    if not nodes or not images or copies <= 0:
        return {node.name: () for node in nodes}
    if copies >= len(nodes):
        return {node.name: names for node in nodes}
    families = sorted({family_of(name) for name in names})
    shares = _share_out(nodes)
    loads = Loads(_weigh(images, families), shares, copies)
    kept = _keep(loads, names, nodes, copies)
    if sum(map(len, loads.holders)) < copies * len(images):
        Fill(loads, Ring([node.name for node in nodes], shares), families, copies).run()
    num_known = sum(image.num_bytes is not None for image in images)
    # While sizes are guesses for many, nothing that was pulled moves for their sake.
    may_move_kept = num_known == 0 or num_known >= _KNOWN_SHARE * len(images)
    largest = max(weighed.num_bytes for weighed in loads.images)
    while (
        relieve(loads, FRESH_BOUND, kept)
        or exchange(loads, EXCHANGE_BOUND, kept)
        or (may_move_kept and relieve(loads, LOAD_BOUND, frozenset(), coarseness_bytes=largest))
    ):
        pass
    return {node.name: tuple(names[image] for image in sorted(loads.held[i])) for i, node in enumerate(nodes)}


def _weigh(images: Sequence[CacheImage], families: Sequence[str]) -> list[Weighed]:
    known = [image.num_bytes for image in images if image.num_bytes is not None]
    usual = max(1, sum(known) // len(known)) if known else 1
    numbers = {family: number for number, family in enumerate(families)}
    weighed = []
    for image in images:
        num_bytes = usual if image.num_bytes is None else max(1, image.num_bytes)
        shared_bytes = min(image.shared_bytes, num_bytes - 1)
        weighed.append(Weighed(numbers[family_of(image.name)], num_bytes - shared_bytes, shared_bytes))
    return weighed


def _share_out(nodes: Sequence[CacheNode]) -> list[float]:
    """1.0 on average; a node without a budget of its own has the average."""
    known = [node.budget_bytes for node in nodes if node.budget_bytes is not None]
    usual = max(1.0, sum(known) / len(known)) if known else 1.0
    budgets = [usual if node.budget_bytes is None else max(1.0, float(node.budget_bytes)) for node in nodes]
    mean = sum(budgets) / len(budgets)
    return [budget / mean for budget in budgets]


def _keep(loads: Loads, names: Sequence[str], nodes: Sequence[CacheNode], copies: int) -> set[tuple[int, int]]:
    """Leave copies where they are, first those on disk, then those told of; returns those on disk."""
    numbers = {name: number for number, name in enumerate(names)}
    kept = set()
    for is_held in (True, False):
        for node, state in enumerate(nodes):
            for name in state.held if is_held else state.assigned:
                image = numbers.get(name)
                if image is None or node in loads.holders[image] or len(loads.holders[image]) >= copies:
                    continue
                loads.put(node, image)
                if is_held:
                    kept.add((node, image))
    return kept
