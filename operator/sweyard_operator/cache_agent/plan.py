"""What a node should pull and evict next: pure.

Pulls keep the assignment's order (order of need), and begin only where what they will take fits into the budget beside
all that is there and under way. Evictions make room for a pull, and bring a node that is over its budget back: of what
nothing uses and nobody wants here the longest unused, then of what this agent pulled that which is needed last, but
only for what is needed sooner. Of images that this agent did not pull only those of the cache's families, which
sandboxes brought, may go. Everything else belongs to the kubelet.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sweyard_operator.cache_agent.cri import HeldImage
from sweyard_operator.cache_agent.disk import DISK_BYTES_PER_COMPRESSED
from sweyard_operator.cache_agent.image_names import family_of, normalize, registry_host
from sweyard_operator.cache_agent.protocol import Assignment

Held = Mapping[str, HeldImage]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Next actions on one node."""

    pulls: tuple[str, ...]
    evictions: tuple[str, ...]
    no_room: frozenset[str]
    """Images that do not fit into the budget, and nothing that is needed less can be evicted for them."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What the node says."""

    held: Held
    in_use: frozenset[str]
    used_bytes: int
    pulled: tuple[str, ...]
    """Oldest first."""
    pulling: frozenset[str]
    not_before: Mapping[str, float]
    """Images that failed: no retry before this time."""
    last_used: Mapping[str, float] = field(default_factory=dict)
    """By name as the runtime lists it: when a container had it last; none for as long as the agent knows."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """By missing image: what it is expected to add to the disk."""
    reserved_bytes: int = 0
    """Of pulls whose bytes may not show yet."""
    unasked: frozenset[str] = frozenset()
    """Images to leave for now: their registry has not answered yet, or wants to be left alone."""
    is_settled: bool = True
    """No eviction so recent that its bytes may still show."""


def plan_node(assignment: Assignment, state: NodeState, now: float) -> NodePlan:
    """Pulls to start now (at most the free slots) and images to evict now."""
    budget = assignment.disk_budget_bytes
    room = None if budget is None else budget - state.used_bytes - state.reserved_bytes
    pulls: list[str] = []
    no_room: list[str] = []
    running = Counter(registry_host(image) for image in state.pulling)
    for image in _missing(assignment, state, now):
        if len(pulls) + len(state.pulling) >= assignment.max_parallel_pulls:
            break
        host, need = registry_host(image), state.needs.get(image, 0)
        limits = assignment.registry_pulls
        if limits is not None and running[host] >= limits.get(host, 0):
            continue
        if room is not None and need > room:
            candidates = _evictable(assignment, state, sooner=image)
            if candidates:
                # What is needed less does not take the room that is being made.
                evictions = _enough(candidates, state, need - room) if state.is_settled else ()
                return NodePlan(tuple(pulls), evictions, frozenset(no_room))
            no_room.append(image)
            continue
        pulls.append(image)
        running[host] += 1
        room = None if room is None else room - need
    over = -room if room is not None and room < 0 and not pulls else 0
    surplus = _evictable(assignment, state, sooner=None) if over and state.is_settled else ()
    return NodePlan(tuple(pulls), _enough(surplus, state, over), frozenset(no_room))


def _missing(assignment: Assignment, state: NodeState, now: float) -> Iterator[str]:
    for image in assignment.images:
        if is_held(image, state.held) or image in state.pulling or image in state.unasked:
            continue
        if state.not_before.get(image, now) <= now:
            yield image


def is_held(image: str, held: Held) -> bool:
    """True if the runtime lists this reference."""
    return listed(image, held) is not None


def listed(image: str, held: Held) -> HeldImage | None:
    """As the runtime lists this reference; None if it does not."""
    return held.get(normalize(image), held.get(image))


def on_demand(assignment: Assignment, held: Held) -> tuple[str, ...]:
    """Images of the cache's families that the node has, by tag; a digest is a second name of one with a tag."""
    if not assignment.families:
        return ()
    families = set(assignment.families)
    return tuple(sorted(image for image in held if "@" not in image and family_of(image) in families))


def _evictable(assignment: Assignment, state: NodeState, sooner: str | None) -> tuple[str, ...]:
    """What may go, the first first; of what is wanted here only what is needed after `sooner`."""
    ranks = {normalize(image): rank for rank, image in enumerate(assignment.images)}
    used = {normalize(image) for image in state.in_use} | state.in_use
    free = [
        image
        for image in state.pulled
        if normalize(image) not in used and image not in used and is_held(image, state.held)
    ]
    own = [image for image in free if normalize(image) not in ranks]
    brought = [image for image in on_demand(assignment, state.held) if normalize(image) not in {*ranks, *used}]
    unwanted = sorted(dict.fromkeys([*own, *brought]), key=lambda image: state.last_used.get(normalize(image), 0.0))
    if sooner is None:
        return tuple(unwanted)
    rank = ranks[normalize(sooner)]
    later = [image for image in free if ranks.get(normalize(image), -1) > rank]
    return (*unwanted, *sorted(later, key=lambda image: -ranks[normalize(image)]))


def _enough(candidates: tuple[str, ...], state: NodeState, num_bytes: int) -> tuple[str, ...]:
    """The first of them that free so much by the usual measure. What they share with others stays: then more follow."""
    chosen = []
    for image in candidates:
        if num_bytes <= 0:
            break
        found = listed(image, state.held)
        num_bytes -= max(1, int(DISK_BYTES_PER_COMPRESSED * (found.num_bytes if found else 0)))
        chosen.append(image)
    return tuple(chosen)
