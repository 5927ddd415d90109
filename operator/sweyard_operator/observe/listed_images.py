"""Images that a ConfigMap lists: under the key `images`, one a line, with or without their sizes.

`IMAGE [BYTES [SHARED_BYTES]]`: compressed bytes of the image, and of these what its whole family has in its layers, as
`sweyard cache plan --sizes --list FILE` writes them. No node can tell which layers images share, a registry can.
"""

from collections.abc import Iterator

from sweyard_api.constants import IMAGES_KEY
from sweyard_operator.resources import Manifest


def listed_images(config_map: Manifest) -> tuple[str, ...]:
    """In their order; empty lines and those that begin with # say nothing."""
    return tuple(fields[0] for fields in _lines(config_map))


def listed_sizes(config_map: Manifest) -> dict[str, tuple[int, int]]:
    """Bytes and shared bytes by image, where a line has them; what is no number says nothing."""
    numbers = {fields[0]: [int(text) for text in fields[1:3] if text.isdecimal()] for fields in _lines(config_map)}
    return {image: (found[0], found[1] if len(found) > 1 else 0) for image, found in numbers.items() if found}


def _lines(config_map: Manifest) -> Iterator[list[str]]:
    for line in ((config_map.get("data") or {}).get(IMAGES_KEY) or "").splitlines():
        if (fields := line.split()) and not fields[0].startswith("#"):
            yield fields
