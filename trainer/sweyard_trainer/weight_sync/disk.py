"""Weights through the shared volume: the learner has written `<storage>/weights/<version>`, engines read it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from sweyard_trainer.atomic_directory import is_complete
from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.weight_sync.engine_control import EngineControl

DEADLINE_SECONDS = 900.0


class DiskWeightSync:
    """All engines at the same time."""

    def __init__(
        self,
        engine_urls: Sequence[str],
        weights: Path,
        *,
        api_key: str | None = None,
        as_adapter: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._engine_urls = tuple(engine_urls)
        self._weights = weights
        self._as_adapter = as_adapter
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._deadline_seconds = deadline_seconds

    async def publish(self, version: int) -> None:
        """See WeightSync."""
        directory = self._weights / str(version)
        if not is_complete(directory):
            raise WeightSyncError(f"{directory} holds no complete weights to publish")
        deadline = asyncio.get_running_loop().time() + self._deadline_seconds
        async with aiohttp.ClientSession(headers=self._headers) as http:
            engines = [EngineControl(url, http, deadline) for url in self._engine_urls]
            updates = [_update(engine, directory, version, self._as_adapter) for engine in engines]
            results = await asyncio.gather(*updates, return_exceptions=True)
        for failure in filter(None, results):
            raise failure


async def _update(engine: EngineControl, directory: Path, version: int, as_adapter: bool) -> None:
    """An engine that fails to load stays paused: it must not sample from half of the weights."""
    await engine.pause()
    await (engine.load_adapter(directory) if as_adapter else engine.load_from_disk(directory))
    await engine.forget_prefixes()
    await engine.name_version(version)
    await engine.resume()
    await engine.confirm(version)
