"""WorkerPool: spreads attempts over workers, never more at once than allowed."""

import asyncio
import time
from collections.abc import Callable, Sequence

from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.occupancy import Occupancy
from sweyard_trainer.rollout.plan import AttemptPlan, images_in_order
from sweyard_trainer.rollout.worker import VerificationTimeoutError, Worker
from sweyard_trainer.trajectory import Trajectory


class WorkerPool:
    """Some workers, used as one."""

    def __init__(
        self, workers: Sequence[Worker], max_concurrent: int, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._workers = list(workers)
        self._max_concurrent = max_concurrent
        self._slots = asyncio.Semaphore(max_concurrent)
        self._load = [0] * len(self._workers)
        self.occupancy = Occupancy(max_concurrent, monotonic)

    async def start(self) -> None:
        """Start all workers."""
        await asyncio.gather(*(worker.start() for worker in self._workers))

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        """All workers sample with `version` from here on; see GatewayClient."""
        await asyncio.gather(*(worker.use_weights(version, num_engines) for worker in self._workers))

    async def announce(self, plans: Sequence[AttemptPlan]) -> None:
        """Tell each worker's runtime its share of the images that `plans` will want."""
        images = images_in_order(plans, self._max_concurrent)
        count = len(self._workers)
        await asyncio.gather(*(worker.announce(images[n::count]) for n, worker in enumerate(self._workers)))

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        """See Worker.verify."""
        async with self._slots:
            return await self._workers[self._least_loaded()].verify(task, patient=patient)

    async def verify_twice(self, task: Task) -> str | None:
        """`verify`, once more with more time where it took too long."""
        try:
            return await self.verify(task)
        except VerificationTimeoutError:
            return await self.verify(task, patient=True)

    async def regression_score(self, task: Task, patch: str) -> float:
        """See Worker.regression_score."""
        async with self._slots:
            return await self._workers[self._least_loaded()].regression_score(task, patch)

    async def run(self, plan: AttemptPlan) -> Trajectory:
        """One attempt, on the least loaded worker, once there is room."""
        async with self._slots:
            chosen = self._least_loaded()
            self._load[chosen] += 1
            try:
                with self.occupancy.in_use():
                    return await self._workers[chosen].run(plan)
            finally:
                self._load[chosen] -= 1

    async def close(self) -> None:
        """Close all workers."""
        await asyncio.gather(*(worker.close() for worker in self._workers))

    def _least_loaded(self) -> int:
        return min(range(len(self._load)), key=self._load.__getitem__)
