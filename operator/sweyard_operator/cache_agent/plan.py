"""What a node should pull and evict next: pure.

Pulls keep the assignment's order (order of need), and begin only where what they will take fits into the budget beside
all that is there and under way; the last slot is no registry's that has all others, while another's images wait.
Evictions make room for a pull, and bring a node that is over its budget back: of what nothing uses and nobody wants
here the longest unused, then of what this agent pulled that which is needed last, but only for what is needed sooner.
Of images that this agent did not pull only those of the cache's families, which sandboxes brought, may go. Everything
else belongs to the kubelet.

What is wanted does not go twice in vain: what it makes room for has to be able to fit, and to come.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweyard_operator.cache_agent.disk import NO_NEEDS, Needs
from sweyard_operator.cache_agent.held import Held, is_held, listed
from sweyard_operator.cache_agent.image_names import family_of, normalize, registry_host
from sweyard_operator.cache_agent.protocol import Assignment


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Next actions on one node."""

    pulls: tuple[str, ...]
    evictions: tuple[str, ...]
    no_room: frozenset[str]
    """Images that do not fit into the budget, and nothing that is needed less can be evicted for them."""
    in_vain: Mapping[str, int] = field(default_factory=dict)
    """Of these: the room there was, where no pull had a part of it."""


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
    needs: Needs = NO_NEEDS
    """What the missing images are expected to add to the disk."""
    frees: Mapping[str, int] = field(default_factory=dict)
    """By image that may go: what that takes off the disk at least."""
    frees_at_most: Mapping[str, int] = field(default_factory=dict)
    """The same if nothing that stays shares its layers."""
    in_vain: Mapping[str, int] = field(default_factory=dict)
    """Images that did not fit once all that may go for them had gone: the most room there was."""
    hopeless: frozenset[str] = frozenset()
    """Images whose pulls failed again and again: nothing that is wanted goes for them."""
    reserved_bytes: int = 0
    """Of pulls whose bytes may not show yet."""
    unasked: frozenset[str] = frozenset()
    """Images to leave for now: their registry has not answered yet, or wants to be left alone."""
    silent: frozenset[str] = frozenset()
    """Registries that did not answer lately: one pull at once of each, or they would have all that there are."""
    is_settled: bool = True
    """No eviction so recent that its bytes may still show."""


def plan_node(assignment: Assignment, state: NodeState, now: float) -> NodePlan:
    """Pulls to start now (at most the free slots) and images to evict now."""
    budget = assignment.disk_budget_bytes
    room = None if budget is None else budget - state.used_bytes - state.reserved_bytes
    pulls: list[str] = []
    no_room: list[str] = []
    in_vain: dict[str, int] = {}
    running = Counter(registry_host(image) for image in state.pulling)
    missing = tuple(_missing(assignment, state, now))
    limits = assignment.registry_pulls
    hosts = {host for host in map(registry_host, missing) if limits is None or limits.get(host, 0)}
    for position, image in enumerate(missing):
        num_free = assignment.max_parallel_pulls - len(pulls) - len(state.pulling)
        if num_free <= 0:
            break
        host, need = registry_host(image), state.needs.by_image.get(image, 0)
        if limits is not None and running[host] >= limits.get(host, 0):
            continue
        if host in state.silent and running[host]:
            continue
        if hosts != {host} and 1 < running[host] + 1 == assignment.max_parallel_pulls:
            continue  # one slow registry does not hold up the others
        if room is not None and need > room:
            if (evictions := _make_room(assignment, state, missing[position : position + num_free], room)) is not None:
                # What is needed less does not take the room that is being made.
                return NodePlan(tuple(pulls), evictions, frozenset(no_room), in_vain)
            no_room.append(image)
            if not pulls and not state.reserved_bytes:
                in_vain[image] = room
            continue
        pulls.append(image)
        running[host] += 1
        room = None if room is None else room - need
    over = -room if room is not None and room < 0 and not pulls else 0
    surplus = unwanted_images(assignment, state) if over and state.is_settled else ()
    return NodePlan(tuple(pulls), _enough(surplus, state, over), frozenset(no_room), in_vain)


def _make_room(assignment: Assignment, state: NodeState, images: tuple[str, ...], room: int) -> tuple[str, ...] | None:
    """What to evict now, which may be nothing yet, so that the first of `images` will fit, and the others beside it if
    enough may go for them; None if nothing may go for the first."""
    if not state.is_settled:
        return ()
    if unwanted := unwanted_images(assignment, state):
        # All that is missing is wanted more: room for all of it at once.
        needed = max(state.needs.num_bytes, state.needs.by_image[images[0]])
        return _enough(unwanted, state, needed - room)
    return _enough_later(assignment, state, images, room) or None


def _missing(assignment: Assignment, state: NodeState, now: float) -> Iterator[str]:
    for image in assignment.images:
        if is_held(image, state.held) or image in state.pulling or image in state.unasked:
            continue
        if state.not_before.get(image, now) <= now:
            yield image


def on_demand(assignment: Assignment, held: Held) -> tuple[str, ...]:
    """Images of the cache's families that the node has, by tag; a digest is a second name of one with a tag."""
    if not assignment.families:
        return ()
    families = set(assignment.families)
    return tuple(sorted(image for image in held if "@" not in image and family_of(image) in families))


def unwanted_images(assignment: Assignment, state: NodeState) -> tuple[str, ...]:
    """What may go since nobody wants it here, the longest unused first."""
    wanted = {normalize(image) for image in assignment.images}
    brought = [image for image in on_demand(assignment, state.held) if not _is_used(image, state)]
    found = [image for image in dict.fromkeys([*_own_unused(state), *brought]) if normalize(image) not in wanted]
    alone = _removable(assignment, state, found)
    return tuple(sorted(alone, key=lambda image: state.last_used.get(normalize(image), 0.0)))


def _later_images(assignment: Assignment, state: NodeState, sooner: str) -> tuple[str, ...]:
    """What may go for `sooner` since it is needed later, the last first."""
    ranks = {normalize(image): rank for rank, image in enumerate(assignment.images)}
    rank = ranks[normalize(sooner)]
    later = [image for image in _own_unused(state) if ranks.get(normalize(image), -1) > rank]
    return tuple(sorted(_removable(assignment, state, later), key=lambda image: -ranks[normalize(image)]))


def _enough_later(assignment: Assignment, state: NodeState, images: tuple[str, ...], room: int) -> tuple[str, ...]:
    """For each of `images` some that are needed later than it, until as many fit as can."""
    chosen: list[str] = []
    needed_bytes = 0
    for image in images:
        # Layers that they share come once, so all need no more than all that is missing.
        needed_bytes = min(needed_bytes + state.needs.by_image[image], state.needs.num_bytes)
        later = _later_images(assignment, state, image)
        if not _may_fit(image, needed_bytes, {*chosen, *later}, state, room):
            break
        for candidate in later:
            if needed_bytes <= room + _freed(chosen, state.frees):
                break
            if candidate not in chosen:
                chosen.append(candidate)
        if needed_bytes > room + _freed(chosen, state.frees):
            break
    return tuple(chosen)


def _may_fit(image: str, needed_bytes: int, candidates: Collection[str], state: NodeState, room: int) -> bool:
    """Once all `candidates` have gone. If they went before and it did not fit, there has to be more room by now."""
    if image in state.hopeless or needed_bytes > room + _freed(candidates, state.frees_at_most):
        return False
    return room + _freed(candidates, state.frees) > state.in_vain.get(image, -1)


def _freed(images: Collection[str], frees: Mapping[str, int]) -> int:
    return sum(frees.get(image, 0) for image in images)


def _removable(assignment: Assignment, state: NodeState, candidates: Sequence[str]) -> list[str]:
    """Runtimes remove an image with all its names: those of which every name may go."""
    wanted = {normalize(image) for image in assignment.images}
    may_go = {normalize(image) for image in candidates}
    # A digest is a second name of an image with a tag, unless it is the one that is wanted.
    stay = [one for name, one in state.held.items() if name not in may_go and ("@" not in name or name in wanted)]
    bound = {one.image_id for one in stay}
    found = {image: listed(image, state.held) for image in candidates}
    return [image for image, one in found.items() if one is not None and one.image_id not in bound]


def _own_unused(state: NodeState) -> list[str]:
    return [image for image in state.pulled if is_held(image, state.held) and not _is_used(image, state)]


def _is_used(image: str, state: NodeState) -> bool:
    return image in state.in_use or normalize(image) in state.in_use


def _enough(candidates: tuple[str, ...], state: NodeState, num_bytes: int) -> tuple[str, ...]:
    """The first of them that free so much; if they turn out to free less, more follow."""
    chosen = []
    for image in candidates:
        if num_bytes <= 0:
            break
        num_bytes -= state.frees.get(image, 0)
        chosen.append(image)
    return tuple(chosen)
