"""Images that are no container images: directory trees of this machine, written `dir:PATH`."""

from pathlib import Path

_PREFIX = "dir:"


def tree_image(tree: Path | str) -> str:
    """The image of a directory tree."""
    return f"{_PREFIX}{tree}"


def tree_of(image: str) -> Path | None:
    """The directory that an image names, perhaps a relative one; None for a container image."""
    path = image.removeprefix(_PREFIX)
    return Path(path) if image.startswith(_PREFIX) and path else None
