"""Images that a ConfigMap lists: under the key `images`, one a line."""

from sweyard_api.constants import IMAGES_KEY
from sweyard_operator.resources import Manifest


def listed_images(config_map: Manifest) -> tuple[str, ...]:
    """In their order; empty lines and those that begin with # say nothing."""
    lines = ((config_map.get("data") or {}).get(IMAGES_KEY) or "").splitlines()
    stripped = (line.strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))
