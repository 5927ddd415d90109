"""Bringing local images into a cluster: they are pushed to its registry, and pods name them there."""

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from .errors import ClusterError
from .image_builders import Builder


def name_in_cluster(image: str) -> str:
    """The name and tag below the registry's address: without the host of where the image came from."""
    first, slash, rest = image.partition("/")
    is_host = slash and (first == "localhost" or "." in first or ":" in first)
    name = rest if is_host else image
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def archive_sources(archive: Path) -> dict[str, str]:
    """Each image of an archive by name to its place in skopeo's notation; raises ClusterError for another file."""
    try:
        with tarfile.open(archive) as tar:
            members = set(tar.getnames())
            if "manifest.json" in members:
                stored = tar.extractfile("manifest.json")
                assert stored is not None
                tags = [tag for entry in json.load(stored) for tag in entry.get("RepoTags") or []]
                return {tag: f"docker-archive:{archive}:{tag}" for tag in tags}
            if "index.json" in members:
                return {f"{archive.name.partition('.')[0]}:latest": f"oci-archive:{archive}"}
    except tarfile.TarError as error:
        raise ClusterError(f"{archive} is not an image archive: {error}") from error
    raise ClusterError(f"{archive} is a tar but not of an image; make one with `docker save` or `buildah push`")


def sources(image: str, builder: Builder) -> dict[str, str]:
    """What IMAGE|ARCHIVE on the command line means; raises ClusterError if there is no such thing."""
    if Path(image).is_file():
        return archive_sources(Path(image).absolute())
    if builder.size_bytes(image) is not None:
        return {image: builder.source(image)}
    raise ClusterError(f"{image!r} is neither a file nor a local image; build it, or name an archive")


def push(source: str, destination: str, *, plain_http: bool = True) -> str:
    """Copy into a registry, by default the cluster's, which speaks plain HTTP; the image's digest."""
    with tempfile.NamedTemporaryFile("r") as digest:
        tls = ["--dest-tls-verify=false"] if plain_http else []
        command = ["skopeo", "copy", "--quiet", *tls, "--digestfile", digest.name, source, f"docker://{destination}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"cannot load {source}: {done.stderr.strip()[-500:]}")
        return digest.read().strip()
