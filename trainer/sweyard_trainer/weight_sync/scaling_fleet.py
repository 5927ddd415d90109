"""Engines of which only the first so many serve, as `scaler` says; the others end their replies, and may be gone."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.weight_sync.fleet import Fleet, FleetEngine, Member
from sweyard_trainer.weight_sync.patience import Patience
from sweyard_trainer.weight_sync.scaler import Engines

logger = logging.getLogger(__name__)


class PausableEngine(FleetEngine, Protocol):
    """One that can be without work."""

    async def pause(self) -> None:
        """Return once it has ended its replies; it begins no others before its next update."""
        ...


class ScalingFleet(Fleet):
    """A Fleet that may be smaller for a while. An engine that is needed again is brought back with new weights."""

    def __init__(self, engines: Sequence[PausableEngine], patience: Patience) -> None:
        super().__init__(engines, patience)
        self._engines = {engine.name: engine for engine in engines}

    @property
    def scalable(self) -> Engines | None:
        """See WeightSync."""
        return self

    @property
    def num_serving(self) -> int:
        """See scaler.Engines."""
        return len(self.serving)

    @property
    def most(self) -> int:
        """See scaler.Engines."""
        return len(self._all)

    def keep(self, count: int) -> None:
        """See scaler.Engines."""
        self._members = self._all[:count]

    async def drain(self) -> None:
        """See scaler.Engines."""
        await asyncio.gather(*(self._dismiss(member) for member in self._all if member not in self._members))

    async def _dismiss(self, member: Member) -> None:
        async with member.busy:
            if member.version is None or member in self._members:
                return
            name = member.engine.name
            logger.info("%s is not needed", name)
            member.version, member.why = None, WeightSyncError(f"{name} was not needed")
            try:
                await self._within(
                    self._patience.update, self._engines[name].pause(), f"{name} did not end its replies"
                )
            except WeightSyncError as error:
                logger.warning("an engine goes that may be at work: %s", error)
