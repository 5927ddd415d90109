"""Weights through the shared volume: the learner has written `<storage>/weights/<version>`, engines read it."""

from pathlib import Path

from sweyard_trainer.completeness import is_complete
from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.weight_sync.engine_control import EngineControl


class DiskEngine:
    """One engine that loads from the volume, for EngineFleet."""

    def __init__(self, control: EngineControl, weights: Path, *, as_adapter: bool = False) -> None:
        self._control = control
        self._weights = weights
        self._as_adapter = as_adapter

    @property
    def name(self) -> str:
        """Its URL."""
        return self._control.url

    async def served_version(self) -> str:
        """See EngineControl."""
        return await self._control.served_version()

    async def update(self, version: int) -> None:
        """An engine that fails to load stays paused: it must not sample from half of the weights."""
        directory, control = self._complete(version), self._control
        await control.pause()
        await self._load(directory)
        await control.forget_prefixes()
        await control.name_version(version)
        await control.resume()

    async def pause(self) -> None:
        """See EngineControl."""
        await self._control.pause()

    async def load(self, version: int) -> None:
        """The same for one that takes no requests, is not asked to, and has no cached prefix."""
        await self._load(self._complete(version))

    async def _load(self, directory: Path) -> None:
        control = self._control
        await (control.load_adapter(directory) if self._as_adapter else control.load_from_disk(directory))

    def _complete(self, version: int) -> Path:
        directory = self._weights / str(version)
        if not is_complete(directory):
            raise WeightSyncError(f"{directory} holds no complete weights to publish")
        return directory
