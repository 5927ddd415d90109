"""Images of random layers and a shell, some of them shared by a family, pushed without any image tool."""

import io
import json
import random
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sweyard_cluster.scratch_image import CONFIG, LAYER, MANIFEST, Blob, expect, request

MIB = 1024 * 1024
BASE_BYTES, OWN_BYTES = 4 * MIB, MIB
_PROGRAMS = (Path("/bin/sh"), Path("/bin/sleep"))
"""What a sandbox needs to idle; a family's base has them."""
_LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True, slots=True)
class Pushed:
    """One image in the registry."""

    name: str
    """Repository and tag, without a registry."""
    own_layer: str
    """Digest of the layer that no other image has."""


def push_families(
    registry: str, prefix: str, families: int, images: int, seed: int, *, has_shell: bool = True
) -> list[Pushed]:
    """`images` in `families` of equal size, in an order in which neighbours are of different families."""
    rng = random.Random(seed)
    programs = read_programs() if has_shell else {}
    bases = [_layer(rng, BASE_BYTES, programs) for _ in range(families)]
    for family, base in enumerate(bases):
        _push_blob(registry, f"tasks/{prefix}{family}", base)
    return [
        _push_image(
            registry, f"tasks/{prefix}{i % families}", str(i), [bases[i % families], _layer(rng, OWN_BYTES, {})]
        )
        for i in range(images)
    ]


def read_programs() -> dict[str, bytes]:
    """This machine's, and the libraries that they load, by path."""
    paths = set(_PROGRAMS)
    for program in _PROGRAMS:
        # Of a static program it says that there are none, and fails.
        told = subprocess.run(
            ["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
        paths.update(map(Path, _LIBRARY.findall(told.stdout)))
    return {str(path): path.read_bytes() for path in sorted(paths)}


def _layer(rng: random.Random, num_bytes: int, programs: Mapping[str, bytes]) -> Blob:
    """Of so many bytes, those of `programs` among them."""
    padding = rng.randbytes(num_bytes - sum(map(len, programs.values())))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in {f"/data-{rng.randrange(10**9)}": padding, **programs}.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
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
