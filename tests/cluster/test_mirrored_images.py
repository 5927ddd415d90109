"""Images are mirrored into a real registry: by digest, and a second time nothing is left to do."""

from pathlib import Path

import pytest
from tests.cluster.a_registry import serving

from sweyard_cli.cache.image_copier import ImageCopier
from sweyard_cli.cache.mirror import Outcome, mirror_images
from sweyard_cli.cache.registry_client import RegistryClient
from sweyard_cluster.scratch_image import push, scratch_image

pytestmark = pytest.mark.kubelet


def test_images_keep_their_digests_and_are_sent_once(tmp_path: Path) -> None:
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
