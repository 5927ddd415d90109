"""Images of a few random layers, some of them shared by a family, pushed without any image tool."""

import io
import json
import random
import struct
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sweyard_cluster.scratch_image import CONFIG, LAYER, MANIFEST, Blob, expect, request

MIB = 1024 * 1024
BASE_BYTES, OWN_BYTES = 4 * MIB, MIB
EXIT = "exit"
"""A program in every image that ends at once."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """One image in the registry."""

    name: str
    """Repository and tag, without a registry."""
    own_layer: str
    """Digest of the layer that no other image has."""


def push_families(registry: str, prefix: str, families: int, images: int, seed: int) -> list[Pushed]:
    """`images` in `families` of equal size, in an order in which neighbours are of different families."""
    rng = random.Random(seed)
    bases = [_layer(rng, BASE_BYTES) for _ in range(families)]
    for family, base in enumerate(bases):
        _push_blob(registry, f"tasks/{prefix}{family}", base)
    return [
        _push_image(registry, f"tasks/{prefix}{i % families}", str(i), [bases[i % families], _layer(rng, OWN_BYTES)])
        for i in range(images)
    ]


def exit_program() -> bytes:
    """The smallest static program for Linux on x86-64: `exit(0)`."""
    code = bytes.fromhex("b83c000000 31ff 0f05")  # mov eax, 60; xor edi, edi; syscall
    size, base = 64 + 56 + len(code), 0x400000
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return ident + header + segment + code


def _layer(rng: random.Random, num_bytes: int) -> Blob:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(f"data-{rng.randrange(10**9)}")
        entry.size = num_bytes
        archive.addfile(entry, io.BytesIO(rng.randbytes(num_bytes)))
        program = tarfile.TarInfo(EXIT)
        program.size, program.mode = len(exit_program()), 0o755
        archive.addfile(program, io.BytesIO(exit_program()))
    return Blob(LAYER, buffer.getvalue())


def _push_image(registry: str, repository: str, tag: str, layers: Sequence[Blob]) -> Pushed:
    rootfs = {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
    settings = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/none"]}, "rootfs": rootfs}
    config = Blob(CONFIG, json.dumps(settings).encode())
    for blob in (*layers[1:], config):
        _push_blob(registry, repository, blob)
    descriptors = {"config": config.descriptor(), "layers": [layer.descriptor() for layer in layers]}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, **descriptors}).encode()
    expect(registry, "PUT", f"/v2/{repository}/manifests/{tag}", manifest, MANIFEST)
    return Pushed(f"{repository}:{tag}", layers[-1].digest)


def _push_blob(registry: str, repository: str, blob: Blob) -> None:
    _, location = request(registry, "POST", f"/v2/{repository}/blobs/uploads/")
    parts = urlsplit(location)
    query = f"{parts.query}&" if parts.query else ""
    target = f"{parts.path}?{query}digest={blob.digest}"
    expect(registry, "PUT", target, blob.content, "application/octet-stream")
