"""Weights from GPU to GPU: the ranks broadcast whole tensors into the engines' workers, over vLLM's transfer routes.

Engines must run with `--weight-transfer-config '{"backend": "nccl"}'`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import aiohttp

from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.learner.ranks import RankGroup
from sweyard_trainer.weight_sync.engine_control import EngineControl

DEADLINE_SECONDS = 600.0


class NcclWeightSync:
    """Opens the transfer group at the first publication and keeps it."""

    def __init__(
        self,
        ranks: RankGroup,
        engine_urls: Sequence[str],
        *,
        workers_per_engine: int,
        master_host: str,
        api_key: str | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """`master_host` is where the engines reach rank 0."""
        self._ranks = ranks
        self._engine_urls = tuple(engine_urls)
        self._opening = (self._engine_urls, workers_per_engine, master_host)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._deadline_seconds = deadline_seconds
        self._open = False

    async def publish(self, version: int) -> None:
        """See WeightSync. A transfer that hangs (an engine died inside it) ends at the deadline with WeightSyncError;
        the group is then of no use and the gang must start again."""
        deadline = asyncio.get_running_loop().time() + self._deadline_seconds
        async with aiohttp.ClientSession(headers=self._headers) as http:
            engines = [EngineControl(url, http, deadline) for url in self._engine_urls]
            await _on_all(engines, EngineControl.pause)
            await self._transfer(deadline)
            for step in (EngineControl.forget_prefixes, lambda engine: engine.name_version(version)):
                await _on_all(engines, step)
            await _on_all(engines, EngineControl.resume)
            await _on_all(engines, lambda engine: engine.confirm(version))

    async def _transfer(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                if not self._open:
                    await self._ranks.call("open_transfer", [self._opening] * self._ranks.size)
                    self._open = True
                await self._ranks.call("send_weights", [()] * self._ranks.size)
        except TimeoutError as error:
            raise WeightSyncError(
                f"the transfer to {', '.join(self._engine_urls)} did not end within {self._deadline_seconds:g} s"
            ) from error


async def _on_all(engines: Iterable[EngineControl], step: Callable[[EngineControl], Awaitable[None]]) -> None:
    await asyncio.gather(*(step(engine) for engine in engines))
