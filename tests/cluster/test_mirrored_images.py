"""Images are mirrored into a real registry: by digest, and a second time nothing is left to do."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweyard_cli.cache.image_copier import ImageCopier
from sweyard_cli.cache.mirror import Outcome, mirror_images
from sweyard_cli.cache.registry_client import RegistryClient
from sweyard_cluster.host import ensure_packages
from sweyard_cluster.registry import registry_config
from sweyard_cluster.scratch_image import push, request, scratch_image

pytestmark = pytest.mark.kubelet


def free_address() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The address of a registry of its own."""
    directory.mkdir()
    address, config = free_address(), directory / "registry.yaml"
    config.write_text(registry_config(address, str(directory / "data")))
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        while True:
            with contextlib.suppress(OSError):
                if request(address, "GET", "/v2/")[0] == 200:
                    break
            assert process.poll() is None, (directory / "log").read_text()
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def test_images_keep_their_digests_and_are_sent_once(tmp_path: Path) -> None:
    ensure_packages({"docker-registry": "docker-registry"}, print)
    shared, copies = tmp_path / "shared", {}
    shared.write_bytes(b"x" * 3_000_000)
    with serving(tmp_path / "source") as source, serving(tmp_path / "target") as target:
        for number in range(6):
            own = tmp_path / f"own-{number}"
            own.write_text(str(number))
            name = f"team/i{number}"
            push(scratch_image({"/shared": shared, "/own": own}, ["/own"]), source, name, "1")
            copies[f"{source}/{name}:1"] = f"{target}/mirror/{name}:1"
        copier = ImageCopier(RegistryClient())
        for outcome in (Outcome.COPIED, Outcome.PRESENT):
            found = mirror_images(copies, copier, parallel=3, tell=print)
            assert {(done.outcome, done.message) for done in found} == {(outcome, "")}
        assert all(copier.digest(image) == copier.digest(copied) for image, copied in copies.items())
