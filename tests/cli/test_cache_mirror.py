"""Images are copied side by side, once, and one that fails harms no other."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.cache.mirror import CopyError, Mirrored, Outcome, Skopeo, mirror_images, plan_copies
from sweyard_cli.errors import UserError


@dataclass
class FakeCopier:
    """Registries in memory."""

    digests: dict[str, str] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    together: threading.Barrier | None = None

    def digest(self, image: str) -> str | None:
        return self.digests.get(image)

    def copy(self, source: str, target: str) -> None:
        if self.together is not None:
            self.together.wait(timeout=10)
        if source not in self.digests:
            raise CopyError("manifest unknown")
        self.digests[target] = self.digests[source]
        self.copied.append(source)


def outcomes(copies: dict[str, str], copier: FakeCopier, parallel: int = 2) -> dict[str, Outcome]:
    told: list[Mirrored] = []
    found = mirror_images(copies, copier, parallel=parallel, tell=told.append)
    assert sorted(done.image for done in told) == sorted(done.image for done in found)
    return {done.image: done.outcome for done in found}


def test_images_get_the_names_that_mirrors_will_spell() -> None:
    assert dict(plan_copies(["busybox:1", "ghcr.io/team/a:2"], "r.test:5000/x")) == {
        "busybox:1": "r.test:5000/x/library/busybox:1",
        "ghcr.io/team/a:2": "r.test:5000/x/team/a:2",
    }


def test_two_images_that_would_become_one_are_refused() -> None:
    with pytest.raises(UserError, match=r"both become r\.test/team/a:1"):
        plan_copies(["ghcr.io/team/a:1", "quay.io/team/a:1"], "r.test")


def test_what_failed_is_told_and_the_next_time_only_that_is_copied() -> None:
    copies = {"a:1": "m/a:1", "b:1": "m/b:1"}
    copier = FakeCopier({"a:1": "sha256:1"})
    assert outcomes(copies, copier) == {"a:1": Outcome.COPIED, "b:1": Outcome.FAILED}
    copier.digests["b:1"] = "sha256:2"
    assert outcomes(copies, copier) == {"a:1": Outcome.PRESENT, "b:1": Outcome.COPIED}
    assert copier.copied == ["a:1", "b:1"]


def test_a_tag_that_moved_is_copied_again() -> None:
    copier = FakeCopier({"a:1": "sha256:2", "m/a:1": "sha256:1"})
    assert outcomes({"a:1": "m/a:1"}, copier) == {"a:1": Outcome.COPIED}


def test_copies_run_side_by_side() -> None:
    images = [f"i{number}:1" for number in range(3)]
    copier = FakeCopier(dict.fromkeys(images, "sha256:1"), together=threading.Barrier(3))
    assert set(outcomes({image: f"m/{image}" for image in images}, copier, parallel=3).values()) == {Outcome.COPIED}


def write_skopeo(directory: Path, script: str) -> None:
    program = directory / "skopeo"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)


def test_skopeo_is_told_to_keep_digests_and_its_last_words_are_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skopeo(tmp_path, f'echo "$@" >> {tmp_path}/calls\necho details >&2\necho denied >&2\nexit 1\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    skopeo = Skopeo.find(insecure=True)
    assert skopeo.digest("a:1") is None
    with pytest.raises(CopyError, match=r"^denied$"):
        skopeo.copy("a:1", "m.test/a:1")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[1].split()[:3] == ["copy", "--all", "--preserve-digests"]
    assert calls[1].split()[-3:] == ["--dest-tls-verify=false", "docker://docker.io/library/a:1", "docker://m.test/a:1"]


def test_the_command_says_how_to_use_the_mirror_and_fails_if_an_image_did(
    sweyard: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skopeo(tmp_path, 'case "$*" in *bad*) echo missing >&2; exit 1;; *) echo sha256:1;; esac\n')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = tmp_path / "cache.yaml"
    spec = {"images": ["team/good:1", "team/bad:1"]}
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}, "spec": spec}
    file.write_text(json.dumps(document))
    result = sweyard("cache", "mirror", "-f", file, "--to", "m.test/")
    assert result.exit_code != 0
    assert "present: team/good:1" in result.output
    assert "failed: team/bad:1: missing" in result.output
    assert "- {registry: docker.io, mirror: m.test}" in result.output
