"""Images are copied side by side, once, and one that fails harms no other."""

import threading
from dataclasses import dataclass, field

import pytest

from sweyard_cli.cache.mirror import CopyError, Mirrored, Outcome, mirror_images, plan_copies
from sweyard_cli.errors import UserError


@dataclass
class FakeCopier:
    """Registries in memory."""

    digests: dict[str, str] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    together: threading.Barrier | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def digest(self, image: str) -> str | None:
        return self.digests.get(image)

    def stop(self) -> None:
        self.stopped.set()

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


@pytest.mark.parametrize("to", ["https://r.test/x", "tasks", "tasks/mine", "r.test//x", "r.test/X", ""])
def test_a_target_that_image_names_cannot_begin_with_is_refused(to: str) -> None:
    with pytest.raises(UserError, match=r"--to .*: must be where images lie: host\[:port\]\[/prefix\]"):
        plan_copies(["busybox:1"], to)


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


def test_an_interrupt_ends_the_copies_under_way() -> None:
    class Endless(FakeCopier):
        def copy(self, source: str, target: str) -> None:
            if source == "a:1":
                raise KeyboardInterrupt
            assert self.stopped.wait(timeout=10)
            raise CopyError("interrupted")

    copier = Endless({"a:1": "sha256:1"})
    with pytest.raises(KeyboardInterrupt):
        outcomes({"a:1": "m/a:1", "b:1": "m/b:1"}, copier)
    assert copier.stopped.is_set()
