"""The seam between the main loop and how weights travel."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from sweyard_trainer.weight_sync.scaler import Engines


class WeightSync(Protocol):
    """One way of bringing weights into engines, and of knowing which engines there are."""

    reads_files: bool
    """Whether the version must lie in `<storage>/weights` before it is published."""

    @property
    def absent_at(self) -> float:
        """When, by the event loop's clock, `watch` last saw that no engine served; -inf if there always was one."""
        ...

    @property
    def scalable(self) -> Engines | None:
        """What can have fewer engines serve; None where it is always all of them."""
        ...

    def sampled_version(self, published: int) -> int:
        """What engines say that they sample with once `published` has been."""
        ...

    async def rest(self) -> None:
        """Return once no engine needs what the learner is about to compute on; `publish` ends that.

        Raises EnginesGoneError.
        """
        ...

    async def publish(self, version: int) -> None:
        """Return once every engine that serves has confirmed that it samples with `version`.

        An engine that fails, hangs or confirms another version leaves. Safe to repeat, also after a publisher that died
        half way: engines are never left paused by a repeat. Raises WeightSyncError if every engine refuses, and
        EnginesGoneError if none has confirmed within the time that the run gives them.
        """
        ...

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled: have engines leave that die or turn out to have other weights, and bring back those that
        return; after either, call `on_change`. Raises EnginesGoneError once none has served for too long.
        """
        ...
