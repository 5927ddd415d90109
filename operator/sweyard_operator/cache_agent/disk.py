"""What images take on a node's disk, before they do and once they go: pure.

The runtime's figures lag (containerd looks at its snapshots each 10 s), so what a pull is expected to take counts from
its start until some time after its end; of what counts twice meanwhile the only harm is a pull that starts later.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sweyard_operator.cache_agent.held import Held, is_held, listed
from sweyard_operator.cache_agent.registry import Manifest

DISK_BYTES_PER_COMPRESSED = 3.0
"""containerd keeps layers as they came and unpacked."""
FREED_BYTES_PER_COMPRESSED = 2.0
"""At least: layers do not shrink when they are unpacked."""
UNKNOWN_IMAGE_BYTES = 6 * 10**9
"""On disk, of an image of which neither its registry nor another image tells; but never more than a quarter of the
budget, or nothing would fit into a small one."""
SETTLE_SECONDS = 15.0

Manifests = Mapping[str, Manifest]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Disk that a pull is expected to take."""

    num_bytes: int
    until: float | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Of images that are missing."""

    by_image: Mapping[str, int]
    """What each alone would add."""
    num_bytes: int
    """What all of them would, layers that they share once."""


NO_NEEDS = Needs({}, 0)


def expect_needs(
    images: Iterable[str], manifests: Manifests, present: Iterable[str], budget_bytes: int, ratio: float
) -> Needs:
    """Layers of `images` that no image in `present` (held or being pulled) has."""
    guess = _guess(manifests, budget_bytes, ratio)
    there = {digest for image in present for digest in _layers(image, manifests)}
    by_image: dict[str, int] = {}
    added: dict[str, int] = {}
    for image in images:
        layers = {digest: size for digest, size in _layers(image, manifests).items() if digest not in there}
        is_known = image in manifests and manifests[image].layers is not None
        by_image[image] = int(ratio * sum(layers.values())) if is_known else guess
        added |= layers if is_known else {image: int(guess / ratio)}
    return Needs(by_image, int(ratio * sum(added.values())))


def expect_freed(images: Iterable[str], manifests: Manifests, held: Held) -> dict[str, int]:
    """What the node would at least be rid of without each of `images` alone: layers that no other held image has."""
    holders = Counter(digest for image in manifests if is_held(image, held) for digest in _layers(image, manifests))
    freed = {}
    for image in images:
        own_bytes = sum(size for digest, size in _layers_or_one(image, manifests, held).items() if holders[digest] < 2)
        freed[image] = int(FREED_BYTES_PER_COMPRESSED * own_bytes)
    return freed


def expect_freed_at_most(images: Iterable[str], manifests: Manifests, held: Held, ratio: float) -> dict[str, int]:
    """The same, if all that shares layers with an image goes too."""
    return {image: int(ratio * sum(_layers_or_one(image, manifests, held).values())) for image in images}


def _layers_or_one(image: str, manifests: Manifests, held: Held) -> Mapping[str, int]:
    """Of a held image; one of its own where nobody told its layers."""
    found = listed(image, held)
    return _layers(image, manifests) or {image: 0 if found is None else found.num_bytes}


def _layers(image: str, manifests: Manifests) -> Mapping[str, int]:
    known = manifests.get(image)
    return {} if known is None or known.layers is None else known.layers


def _guess(manifests: Manifests, budget_bytes: int, ratio: float) -> int:
    known = [size for manifest in manifests.values() if (size := manifest.num_bytes) is not None]
    return min(int(ratio * max(known)) if known else UNKNOWN_IMAGE_BYTES, budget_bytes // 4)


def disk_ratio(used_bytes: int, compressed_bytes: int) -> float:
    """Bytes on disk for each compressed one: what this node has met, and at least what is usual."""
    met = used_bytes / compressed_bytes if compressed_bytes else 0.0
    return max(DISK_BYTES_PER_COMPRESSED, met)
