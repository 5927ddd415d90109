"""External engines that keep their weights (inference.fixedWeights): asked if they are there, and no more."""

from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet

FIXED_VERSION = 0
"""What all their tokens are recorded as sampled with, whatever has been trained since."""


class FixedEngine:
    """One of them, for FixedFleet."""

    def __init__(self, control: EngineControl) -> None:
        self._control = control
        self._version = FIXED_VERSION

    @property
    def name(self) -> str:
        """Its URL."""
        return self._control.url

    async def update(self, version: int) -> None:
        """It is sent nothing."""
        self._version = version
        await self._control.served_models()

    async def served_version(self) -> str:
        """The fleet's, of which this engine knows nothing, if it answers."""
        await self._control.served_models()
        return str(self._version)


class FixedFleet(Fleet):
    """A WeightSync that publishes to nobody."""

    reads_files = False

    def sampled_version(self, published: int) -> int:
        """See WeightSync."""
        return FIXED_VERSION
