"""What images will take on a node's disk, before they do: pure.

The runtime's figures lag (containerd looks at its snapshots each 10 s), so what a pull is expected to take counts from
its start until some time after its end; of what counts twice meanwhile the only harm is a pull that starts later.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from sweyard_operator.cache_agent.registry import Manifest

DISK_BYTES_PER_COMPRESSED = 3.0
"""containerd keeps layers as they came and unpacked."""
UNKNOWN_IMAGE_BYTES = 6 * 10**9
"""On disk, of an image of which neither its registry nor another image tells; but never more than a quarter of the
budget, or nothing would fit into a small one."""
SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Disk that a pull is expected to take."""

    num_bytes: int
    until: float | None
    """None while it is under way."""


def needed_bytes(
    image: str,
    manifests: Mapping[str, Manifest],
    present: Iterable[str],
    budget_bytes: int | None,
    ratio: float = DISK_BYTES_PER_COMPRESSED,
) -> int:
    """What `image` would add: its layers that no image in `present` (held or being pulled) has."""
    manifest = manifests.get(image)
    if manifest is None or manifest.layers is None:
        return _guess(manifests, budget_bytes, ratio)
    there: Set[str] = {
        digest for other in present if (known := manifests.get(other)) is not None for digest in known.layers or ()
    }
    return int(ratio * sum(size for digest, size in manifest.layers.items() if digest not in there))


def _guess(manifests: Mapping[str, Manifest], budget_bytes: int | None, ratio: float) -> int:
    known = [size for manifest in manifests.values() if (size := manifest.num_bytes) is not None]
    guess = int(ratio * max(known)) if known else UNKNOWN_IMAGE_BYTES
    return guess if budget_bytes is None else min(guess, budget_bytes // 4)


def disk_ratio(used_bytes: int, compressed_bytes: int) -> float:
    """Bytes on disk for each compressed one: what this node has met, and at least what is usual."""
    return (
        max(DISK_BYTES_PER_COMPRESSED, used_bytes / compressed_bytes) if compressed_bytes else DISK_BYTES_PER_COMPRESSED
    )
