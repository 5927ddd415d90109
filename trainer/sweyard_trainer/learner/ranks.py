"""RankGroup: the same call on every rank. In this process for one rank, in Ray actors for more."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.rank_worker import RankWorker

LOOPBACK = "127.0.0.1"


class RankGroup(Protocol):
    """All ranks of the learner."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...

    async def start(self) -> None:
        """Start the processes and their process group."""
        ...

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        """`method` of RankWorker on each rank with its own arguments; results in rank order.

        Raises what the method raised, or RankDiedError if a rank is gone.
        """
        ...

    async def stop(self) -> None:
        """End the processes; safe to call twice."""
        ...


class LocalRank:
    """One rank in a thread of this process."""

    size = 1

    def __init__(self, spec: TrainingRunSpec, storage: Path, num_threads: int | None = None) -> None:
        self._arguments = (0, 1, spec, storage, num_threads)
        self._worker: RankWorker | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")

    async def start(self) -> None:
        self._worker = await self._in_thread(RankWorker, *self._arguments)
        [port] = await self.call("open_store", [(LOOPBACK,)])
        await self.call("connect", [(LOOPBACK, port)])

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        [arguments] = per_rank
        return [await self._in_thread(getattr(self._worker, method), *arguments)]

    async def stop(self) -> None:
        if self._worker is not None:
            await self.call("close", [()])
            self._worker = None
        self._thread.shutdown(wait=True)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        """One thread for all calls: PyTorch keeps a pool of workers per calling thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
