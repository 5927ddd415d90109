"""What should stand free: the holders' demand, merged fairly, then what the pool's user wants warm."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest


def merge_demand(
    demands: Mapping[str, Sequence[str]], warm: Iterable[tuple[str, int]], *, limit: int
) -> tuple[str, ...]:
    """At most `limit` images, in order of need, one entry a sandbox.

    Holders take turns by name, each in its own order of need, so that none waits for another's whole list; `warm`
    comes after them, since it is kept for claims that nobody announced.
    """
    turns = zip_longest(*(demands[holder] for holder in sorted(demands)))
    wanted = chain(
        (image for turn in turns for image in turn if image is not None),
        (image for image, replicas in warm for _ in range(replicas)),
    )
    return tuple(image for image, _ in zip(wanted, range(limit), strict=False))


def count_demand(demands: Mapping[str, Sequence[str]], warm: Iterable[tuple[str, int]]) -> int:
    """Sandboxes asked for, before any cap."""
    return sum(len(images) for images in demands.values()) + sum(replicas for _, replicas in warm)
