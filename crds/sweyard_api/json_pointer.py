"""Paths of JSON patches (RFC 6901)."""


def annotation_path(name: str) -> str:
    """To an annotation of an object."""
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
