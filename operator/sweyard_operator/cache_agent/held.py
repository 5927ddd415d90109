"""What the runtime lists, by whatever name an image is asked for."""

from collections.abc import Mapping

from sweyard_operator.cache_agent.cri import HeldImage
from sweyard_operator.cache_agent.image_names import normalize

Held = Mapping[str, HeldImage]


def is_held(image: str, held: Held) -> bool:
    """True if the runtime lists this reference."""
    return listed(image, held) is not None


def listed(image: str, held: Held) -> HeldImage | None:
    """As the runtime lists this reference; None if it does not."""
    return held.get(normalize(image), held.get(image))
