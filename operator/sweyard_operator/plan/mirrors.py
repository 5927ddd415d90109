"""`mirrors` of an ImageCache: its agents and the sandboxes of pools that refer to it pull from elsewhere.

The container runtime cannot be told of a mirror over CRI, and stores an image under the name it was pulled by: so that
name is what pods carry. What they are claimed by stays the name that the task knows (sweyard.dev/image).
"""

from collections.abc import Sequence

from sweyard_api.image_cache import RegistryMirror
from sweyard_operator.cache_agent.image_names import normalize


def mirrored(image: str, mirrors: Sequence[RegistryMirror]) -> str:
    """The name to pull by."""
    registry, _, path = normalize(image).partition("/")
    for mirror in mirrors:
        if mirror.registry == registry:
            return f"{mirror.mirror}/{path}"
    return image
