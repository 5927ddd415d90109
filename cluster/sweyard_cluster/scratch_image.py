"""Images of a few files on nothing, made and pushed to a registry without any image tool."""

import hashlib
import http.client
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .errors import ClusterError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Blob:
    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}


@dataclass(frozen=True)
class Image:
    layer: Blob
    config: Blob

    @property
    def manifest(self) -> Blob:
        text = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.config.descriptor(),
            "layers": [self.layer.descriptor()],
        }
        return Blob(MANIFEST, json.dumps(text).encode())


def scratch_image(
    files: Mapping[str, Path],
    entrypoint: Sequence[str],
    architecture: str = "amd64",
    *,
    links: Mapping[str, str] | None = None,
) -> Image:
    """An image with `files` (path inside to source), executable and owned by root, and `links` (path inside to target).

    The same input gives the same digest.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for inside, source in sorted(files.items()):
            content = source.read_bytes()
            entry = tarfile.TarInfo(inside.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        for inside, target in sorted((links or {}).items()):
            entry = tarfile.TarInfo(inside.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    layer = Blob(LAYER, buffer.getvalue())
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin:/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
    }
    return Image(layer, Blob(CONFIG, json.dumps(config).encode()))


def push(image: Image, registry: str, name: str, tag: str) -> None:
    """Push over plain HTTP to `registry` (host:port), skipping blobs it has; raises ClusterError when refused."""
    for blob in (image.layer, image.config):
        if request(registry, "HEAD", f"/v2/{name}/blobs/{blob.digest}")[0] == 200:
            continue
        status, location = request(registry, "POST", f"/v2/{name}/blobs/uploads/")
        if status != 202:
            raise ClusterError(f"registry {registry} refused an upload to {name}: {status}")
        parts = urlsplit(location)
        target = (
            f"{parts.path}?{parts.query}&digest={blob.digest}" if parts.query else f"{parts.path}?digest={blob.digest}"
        )
        expect(registry, "PUT", target, blob.content, "application/octet-stream")
    expect(registry, "PUT", f"/v2/{name}/manifests/{tag}", image.manifest.content, MANIFEST)


def expect(registry: str, method: str, path: str, body: bytes, content_type: str) -> None:
    status, _ = request(registry, method, path, body, content_type)
    if status != 201:
        raise ClusterError(f"registry {registry}: {method} {path}: {status}")


def request(
    registry: str, method: str, path: str, body: bytes | None = None, content_type: str | None = None
) -> tuple[int, str]:
    """Status and Location of one request."""
    host, _, port = registry.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": content_type} if content_type else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Location", "")
    finally:
        connection.close()
