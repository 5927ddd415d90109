"""The order in which nodes pull and evict: what the holders of the pools ask for next comes first. Pure.

After it comes what nobody has asked for yet, as listed, and at the end what was asked for before: a schedule that goes
round a data set comes back last to what it wanted last, so that goes first where room is short.

Invariants: of what a node has still to pull, what is needed stands first, in order of need; planned again from its own
result, nothing is told anew; a node that has all it holds for the need of now is told nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweyard_operator.cache_agent.protocol import Assignment, ImageReport, ImageState, NodeReport, PullFailure


@dataclass(frozen=True, slots=True)
class Need:
    """What holders ask for; each image once."""

    now: tuple[str, ...] = ()
    """Next first."""
    past: tuple[str, ...] = ()
    """No longer, that of the longest ago first."""


NO_NEED = Need()


def follow(before: Need, asked: Iterable[str], images: Collection[str]) -> Need:
    """The need of a cache of `images` once this is asked for."""
    known = frozenset(images)
    now = tuple(dict.fromkeys(image for image in asked if image in known))
    is_wanted = frozenset(now)
    dropped = [image for image in before.now if image not in is_wanted]
    return Need(now, (*(image for image in before.past if image not in is_wanted), *dropped))


def order_assignments(
    placement: Mapping[str, Sequence[str]],
    need: Need,
    told: Mapping[str, Assignment],
    reports: Mapping[str, NodeReport],
) -> dict[str, tuple[str, ...]]:
    """Each node's images in order of need; of a node for which that would change nothing, in the order it was told."""
    now = {image: (0, rank) for rank, image in enumerate(need.now)}
    past = {image: (2, rank) for rank, image in enumerate(need.past)}
    ranks = {**past, **now}
    ordered = {}
    for node, images in placement.items():
        before = told[node].images if node in told else ()
        best = tuple(sorted(images, key=lambda image: ranks.get(image, (1, 0)))) if ranks else tuple(images)
        is_kept = before != best and len(before) == len(best) and set(before) == set(best)
        ordered[node] = before if is_kept and _is_good_enough(before, best, now, past, reports.get(node)) else best
    return ordered


def _is_good_enough(
    told: Sequence[str],
    best: Sequence[str],
    now: Mapping[str, tuple[int, int]],
    past: Mapping[str, tuple[int, int]],
    report: NodeReport | None,
) -> bool:
    if report is None:
        return True  # nobody is there to read it
    missing = {image for image in best if _is_missing(report.images.get(image))}
    needed = [image for image in best if image in now]
    lacking = [image for image in needed if image in missing]
    if not lacking:
        return bool(now or past) or _only(told, missing) == _only(best, missing)
    if any(_has_no_room(report.images.get(image)) for image in lacking):
        return False
    # What was needed before and is there stands in nobody's way.
    standing = [image for image in told if image in missing or image not in past][: len(needed)]
    return set(standing) == set(needed) and _only(standing, missing) == lacking


def _only(images: Sequence[str], chosen: set[str]) -> list[str]:
    return [image for image in images if image in chosen]


def _is_missing(said: ImageReport | None) -> bool:
    """Still to be pulled; what failed waits for its next try wherever it stands."""
    return said is None or said.state is ImageState.WAITING or _has_no_room(said)


def _has_no_room(said: ImageReport | None) -> bool:
    return said is not None and said.reason is PullFailure.DISK_BUDGET
