"""Manifests of images and indexes of them, as far as sizes and copies need them (OCI image specification 1.1)."""

from collections.abc import Sequence

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
ACCEPT = ", ".join((*INDEXES, *MANIFESTS))


class Platform(BaseModel):
    """What an image runs on."""

    os: str = ""
    architecture: str = ""


class Blob(BaseModel):
    """A layer, or the config."""

    digest: str
    size: NonNegativeInt
    """Compressed."""
    urls: tuple[str, ...] = ()
    """Where it is to be had instead."""


class Child(BaseModel):
    """An image of an index."""

    digest: str
    platform: Platform | None = None


class ManifestDocument(BaseModel):
    """Of one image, with layers, or an index, with `manifests`."""

    media_type: str = Field(default="", alias="mediaType")
    config: Blob | None = None
    layers: tuple[Blob, ...] | None = None
    manifests: tuple[Child, ...] | None = None


def read_manifest(body: bytes) -> ManifestDocument:
    """Raises ValueError for what is neither."""
    try:
        found = ManifestDocument.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(": ".join([*map(str, first["loc"]), first["msg"]])) from error
    if found.layers is None and found.manifests is None:
        raise ValueError("a manifest with neither layers nor manifests")
    return found


def choose_child(children: Sequence[Child], architecture: str) -> str:
    """Digest of the image for Linux. Raises LookupError."""
    wanted = Platform(os="linux", architecture=architecture)
    for child in children:
        if child.platform == wanted:
            return child.digest
    raise LookupError(f"the registry has no image for linux/{architecture}")
