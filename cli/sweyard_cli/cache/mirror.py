"""Copies of images in another registry: side by side, and begun again where they were broken off."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sweyard_api.base import REPOSITORY_PATTERN, REPOSITORY_RULE
from sweyard_api.image_cache import RegistryMirror
from sweyard_cli.errors import UserError
from sweyard_operator.cache_agent.image_names import normalize, registry_host
from sweyard_operator.plan.mirrors import mirrored


class CopyError(Exception):
    """An image could not be copied; in a sentence."""


class Copier(Protocol):
    """Implemented by sweyard_cli.cache.image_copier.ImageCopier."""

    def digest(self, image: str) -> str | None:
        """Of what a registry has under this name; None if it has nothing or does not answer."""
        ...

    def copy(self, source: str, target: str) -> None:
        """With its digest, for every platform. Raises CopyError."""
        ...

    def stop(self) -> None:
        """Let copies that other threads make end soon, with CopyError."""
        ...


class Outcome(StrEnum):
    """What became of one image."""

    COPIED = "copied"
    PRESENT = "present"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One image."""

    image: str
    target: str
    outcome: Outcome
    message: str = ""


def plan_copies(images: Sequence[str], prefix: str) -> Mapping[str, str]:
    """By image: its name below `prefix`, as an ImageCache's `mirrors` will spell it. Raises UserError."""
    if not re.fullmatch(REPOSITORY_PATTERN, prefix):
        raise UserError(f"--to {prefix}: {REPOSITORY_RULE}")
    hosts = sorted({registry_host(image) for image in images})
    mirrors = [RegistryMirror(registry=host, mirror=prefix) for host in hosts]
    targets = {image: mirrored(image, mirrors) for image in images}
    by_target: dict[str, str] = {}
    for image, target in targets.items():
        other = by_target.setdefault(target, normalize(image))
        if other != normalize(image):
            raise UserError(
                f"--to {prefix}: {other} and {normalize(image)} would both become {target}; mirror them apart"
            )
    return targets


def mirror_images(
    copies: Mapping[str, str], copier: Copier, *, parallel: int, tell: Callable[[Mirrored], None]
) -> list[Mirrored]:
    """All, each told when it is done; one that fails harms no other. An interrupt ends those under way, too."""

    def mirror(image: str) -> Mirrored:
        done = _mirror_one(image, copies[image], copier)
        tell(done)
        return done

    with ThreadPoolExecutor(parallel) as pool:
        try:
            return list(pool.map(mirror, copies))
        except KeyboardInterrupt:
            copier.stop()
            raise


def _mirror_one(image: str, target: str, copier: Copier) -> Mirrored:
    there = copier.digest(target)
    if there is not None and there == copier.digest(image):
        return Mirrored(image, target, Outcome.PRESENT)
    try:
        copier.copy(image, target)
    except CopyError as error:
        return Mirrored(image, target, Outcome.FAILED, str(error))
    return Mirrored(image, target, Outcome.COPIED)
