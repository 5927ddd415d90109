"""Which layers the images of a family share, of those that one node knows: pure."""

from collections.abc import Iterable, Mapping

from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.cache_agent.registry import Manifest

DIGITS = 12
"""Of a digest: enough to tell the layers of one family apart."""
_MOST_LAYERS = 8
"""A family's largest: the others weigh nothing, and a report is to stay small."""


def shorten(digest: str) -> str:
    """The first digits, without the algorithm."""
    return digest.rpartition(":")[2][:DIGITS]


def family_layers(images: Iterable[str], manifests: Mapping[str, Manifest]) -> dict[str, dict[str, int]]:
    """By family: layers that all its images have whose layers are known; compressed bytes by short digest."""
    common: dict[str, dict[str, int]] = {}
    for image in images:
        known = manifests.get(image)
        if known is None or known.layers is None:
            continue
        family = family_of(image)
        before = common.get(family)
        common[family] = {digest: size for digest, size in known.layers.items() if before is None or digest in before}
    return {family: _largest(layers) for family, layers in common.items()}


def _largest(layers: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(layers.items(), key=lambda item: (-item[1], item[0]))
    return {shorten(digest): size for digest, size in ordered[:_MOST_LAYERS]}
