"""Copies images between registries by their protocol alone: what the target has is not sent again, what one of its
repositories has is mounted from there, and nothing is stored that is not what its digest says."""

import hashlib
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import IO

from sweyard_cli.cache.mirror import CopyError
from sweyard_cli.cache.registry_client import ACCEPTED, BrokenOffError, RegistryClient, RegistryError, strip_host
from sweyard_operator.cache_agent.image_names import normalize, split_reference
from sweyard_operator.cache_agent.manifests import read_manifest

_PIECE_BYTES = 1 << 20
_MISSING = 404


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an image is."""

    host: str
    repository: str
    reference: str

    @classmethod
    def of(cls, image: str) -> "_Place":
        host, _, rest = normalize(image).partition("/")
        return cls(host, *split_reference(rest))

    def path(self, kind: str, name: str) -> str:
        return f"/v2/{self.repository}/{kind}/{name}"


@dataclass(slots=True)
class ImageCopier:
    """See sweyard_cli.cache.mirror.Copier. May be used by several threads at once."""

    client: RegistryClient
    _has_blob: dict[tuple[str, str], str] = field(default_factory=dict)
    """By host and digest: a repository there that has it."""
    _locks: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)

    def digest(self, image: str) -> str | None:
        """Of what a registry has under this name; None if it has nothing or does not answer."""
        place = _Place.of(image)
        try:
            return self._head(place, "manifests", place.reference)
        except RegistryError:
            return None

    def stop(self) -> None:
        """Let copies that other threads make end soon, with CopyError."""
        self.client.stop()

    def copy(self, source: str, target: str) -> None:
        """With its digest, for every platform. Raises CopyError."""
        try:
            self._copy_manifest(_Place.of(source), _Place.of(target))
        except RegistryError as error:
            raise CopyError(str(error)) from error

    def _copy_manifest(self, source: _Place, target: _Place) -> None:
        headers, body = self.client.fetch(source.host, source.path("manifests", source.reference))
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if source.reference.startswith("sha256:") and source.reference != digest:
            raise CopyError(f"{source.host} serves {digest} as {source.reference}")
        try:
            found = read_manifest(body)
        except ValueError as error:
            raise CopyError(f"{source.host} serves no manifest of {source.repository}: {error}") from error
        for child in found.manifests or ():
            places = [_Place(one.host, one.repository, child.digest) for one in (source, target)]
            self._copy_manifest(*places)
        # A layer with URLs of its own is to be had there alone.
        blobs = [blob for blob in (found.config, *(found.layers or ())) if blob is not None and not blob.urls]
        for blob in blobs:
            self._copy_blob(source, target, blob.digest, blob.size)
        self._put_manifest(target, body, found.media_type or headers.get("Content-Type", ""))

    def _put_manifest(self, target: _Place, body: bytes, media_type: str) -> None:
        path = target.path("manifests", target.reference)

        def put() -> None:
            with self.client.open("PUT", target.host, path, headers={"Content-Type": media_type}, body=body):
                pass

        self.client.retry(put)

    def _copy_blob(self, source: _Place, target: _Place, digest: str, size: int) -> None:
        key = (target.host, digest)
        # Who comes second mounts what the first has brought.
        with self._locks.setdefault(key, threading.Lock()):
            if self._has_blob.get(key) != target.repository and self._head(target, "blobs", digest) is None:
                self.client.retry(lambda: self._send_blob(source, target, digest, size))
            self._has_blob[key] = target.repository

    def _send_blob(self, source: _Place, target: _Place, digest: str, size: int) -> None:
        location = self._begin_upload(target, digest)
        if location is None:
            return
        joint = "&" if "?" in location else "?"
        path = f"{location}{joint}{urllib.parse.urlencode({'digest': digest})}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with self.client.open("GET", source.host, source.path("blobs", digest)) as reply:
            body = _verified(reply, digest, size, self.client.check_running)
            with self.client.open("PUT", target.host, path, headers=headers, body=body):
                pass

    def _begin_upload(self, target: _Place, digest: str) -> str | None:
        """Where to send the blob to; None if it is there by now, mounted from another repository."""
        query = ""
        if (other := self._has_blob.get((target.host, digest))) is not None:
            query = "?" + urllib.parse.urlencode({"mount": digest, "from": other})
        path = f"/v2/{target.repository}/blobs/uploads/{query}"
        with self.client.open("POST", target.host, path, body=b"") as reply:
            return None if reply.status == 201 else strip_host(target.host, str(reply.headers["Location"]))

    def _head(self, place: _Place, kind: str, name: str) -> str | None:
        def head() -> Message:
            with self.client.open("HEAD", place.host, place.path(kind, name), headers=ACCEPTED) as reply:
                return reply.headers

        try:
            return str(self.client.retry(head).get("Docker-Content-Digest") or name)
        except RegistryError as error:
            if error.status == _MISSING:
                return None
            raise


def _verified(reply: IO[bytes], digest: str, size: int, check_running: Callable[[], None]) -> Iterator[bytes]:
    """The bytes of a blob; the last of them only once all are what the digest says. Raises BrokenOffError, and what
    `check_running` raises."""
    found, count, held_back = hashlib.sha256(), 0, b""
    while piece := reply.read(_PIECE_BYTES):
        check_running()
        found.update(piece)
        count += len(piece)
        if held_back:
            yield held_back
        held_back = piece
    if count != size or f"sha256:{found.hexdigest()}" != digest:
        raise BrokenOffError(f"blob {digest} came with other bytes: {count} of {size}, sha256:{found.hexdigest()}")
    yield held_back
