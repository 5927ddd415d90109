"""What registries say of the images that a node is to hold, asked in the background and in order of need.

A registry that answers 429 or 5xx with a Retry-After is left alone for so long: neither asked nor pulled from. One that
takes a question and never answers is not asked for a while, so that it holds up no other.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from sweyard_operator.cache_agent.image_names import registry_host
from sweyard_operator.cache_agent.protocol import PullFailure
from sweyard_operator.cache_agent.registry import Manifest, RegistryError

log = logging.getLogger(__name__)

AT_ONCE = 8
RECHECK_SECONDS = 900.0
"""A tag may move under a node that holds it."""
_RETRY_SECONDS = 60.0


class Resolver(Protocol):
    """Implemented by Registry."""

    async def resolve(self, image: str) -> Manifest:
        """Raises RegistryError."""
        ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a registry's images wait for, and until when at least."""

    until: float
    reason: PullFailure
    message: str


@dataclass(slots=True)
class Survey:
    """Manifests by image, and the hosts that want to be left alone."""

    resolver: Resolver
    clock: Callable[[], float]
    manifests: dict[str, Manifest] = field(default_factory=dict)
    _asked_at: dict[str, float] = field(default_factory=dict)
    _asking: dict[str, asyncio.Task[Manifest]] = field(default_factory=dict)
    _pauses: dict[str, Trouble] = field(default_factory=dict)
    _silences: dict[str, Trouble] = field(default_factory=dict)

    def advance(self, images: Iterable[str], known: Iterable[str]) -> None:
        """Take in answers; ask about `images`, the first ones first; forget all but these and those `known`."""
        self._collect()
        wanted = tuple(images)
        for name in set(self.manifests).difference(wanted, known):
            del self.manifests[name]
        wanted_names = set(wanted)
        self._asked_at = {name: at for name, at in self._asked_at.items() if name in wanted_names}
        due = [image for image in wanted if image not in self._asking and self._is_due(image)]
        for image in due[: AT_ONCE - len(self._asking)]:
            self._asked_at[image] = self.clock()
            self._asking[image] = asyncio.create_task(self.resolver.resolve(image))

    def _is_due(self, image: str) -> bool:
        if self.is_paused(image) or self.is_silent(registry_host(image)):
            return False
        asked_at = self._asked_at.get(image)
        if asked_at is None:
            return True
        return self.clock() - asked_at >= (RECHECK_SECONDS if image in self.manifests else _RETRY_SECONDS)

    def _collect(self) -> None:
        for image in [image for image, task in self._asking.items() if task.done()]:
            task = self._asking.pop(image)
            error = task.exception()
            if error is None:
                self._silences.pop(registry_host(image), None)
                self.manifests[image] = task.result()
            elif isinstance(error, RegistryError):
                self._hear_no(image, error)
            else:
                raise error

    def _hear_no(self, image: str, error: RegistryError) -> None:
        log.info("%s: %s", image, error)
        if error.pause_seconds is not None:
            self._asked_at.pop(image, None)
            self.pause(image, error.pause_seconds, error.reason, str(error))
        self._silences.pop(registry_host(image), None)
        if error.reason is PullFailure.TIMEOUT:
            message = f"its registry does not answer, so one pull at a time is tried: {error}"
            self._silences[registry_host(image)] = Trouble(self.clock() + _RETRY_SECONDS, error.reason, message)

    def pause(self, image: str, seconds: float, reason: PullFailure, message: str) -> None:
        """Leave the registry of `image` alone, for what it said."""
        host, until = registry_host(image), self.clock() + seconds
        before = self._pauses.get(host)
        if before is None or before.until < until:
            told = f"its registry is left alone for as long as it asks: {message}"
            self._pauses[host] = Trouble(until, reason, told)

    def trouble(self, image: str) -> Trouble | None:
        """Why it waits for its registry; of one that did not answer until it has."""
        host = registry_host(image)
        return self._pauses[host] if self.is_paused(image) else self._silences.get(host)

    def is_paused(self, image: str) -> bool:
        """Its registry wants to be left alone."""
        found = self._pauses.get(registry_host(image))
        return found is not None and found.until > self.clock()

    def is_silent(self, host: str) -> bool:
        """It did not answer lately."""
        found = self._silences.get(host)
        return found is not None and found.until > self.clock()

    def is_answered(self, image: str) -> bool:
        """Asked, and answered: one way or the other; or there is no hope of an answer."""
        if image in self.manifests or self.is_silent(registry_host(image)):
            return True
        return image in self._asked_at and image not in self._asking

    async def close(self) -> None:
        """Ask no more."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
