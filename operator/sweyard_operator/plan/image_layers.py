"""Which of an image's bytes its family shares, by what the agents' reports say of layers: pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.cache_agent.protocol import NodeReport

_KNOWN_SHARE = 0.9
"""Of a family's images: of few, more is common than of all."""


def reported_sizes(images: Iterable[str], reports: Iterable[NodeReport]) -> dict[str, tuple[int, int]]:
    """By image: compressed bytes, and of these what is in layers that all its family has."""
    said = list(reports)
    num_bytes = {
        image: report.num_bytes for one in said for image, report in one.images.items() if report.num_bytes is not None
    }
    shared = shared_bytes(said)
    members = Counter(family_of(image) for image in images)
    known = Counter(family_of(image) for image in images if image in num_bytes)
    told = {
        family: shared[family]
        for family, count in members.items()
        if family in shared and count > 1 and known[family] >= _KNOWN_SHARE * count
    }
    return {image: (size, min(size, told.get(family_of(image), 0))) for image, size in num_bytes.items()}


def shared_bytes(reports: Iterable[NodeReport]) -> dict[str, int]:
    """By family: bytes of layers that every node which knows of it found in all its images."""
    common: dict[str, Mapping[str, int]] = {}
    for report in reports:
        for family, layers in report.families.items():
            before = common.get(family)
            common[family] = (
                layers if before is None else {digest: size for digest, size in layers.items() if digest in before}
            )
    return {family: sum(layers.values()) for family, layers in common.items()}
