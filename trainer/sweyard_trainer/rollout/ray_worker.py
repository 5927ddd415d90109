"""A Worker in another process: a Ray actor that holds a LocalWorker."""

from collections.abc import Sequence
from typing import Any

import ray

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.environment import Environment
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.worker import LocalWorker
from sweyard_trainer.trajectory import Trajectory


class WorkerActor:
    """The actor's side. Async methods, so all attempts of a worker share its event loop."""

    def __init__(self, spec: TrainingRunSpec, environment: Environment, index: int) -> None:
        self._spec = spec
        self._environment = environment
        self._index = index
        self._worker: LocalWorker | None = None

    async def start(self) -> None:
        from sweyard_trainer.rollout.build import make_local_worker

        self._worker = await make_local_worker(self._spec, self._environment, self._index)
        await self._worker.start()

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        assert self._worker is not None, "start first"
        return await getattr(self._worker, method)(*arguments, **options)


class RayWorker:
    """The main loop's side. A worker that dies ends the run's attempt: its error passes through."""

    def __init__(self, spec: TrainingRunSpec, environment: Environment, index: int) -> None:
        self._arguments = (spec, environment, index)
        self._actor: Any = None

    async def start(self) -> None:
        spec = self._arguments[0]
        actor = ray.remote(WorkerActor).options(num_cpus=0, max_concurrency=2 * spec.rollout.max_concurrent + 16)
        self._actor = actor.remote(*self._arguments)
        await self._actor.start.remote()

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        await self._actor.call.remote("use_weights", version, num_engines)

    async def announce(self, images: Sequence[str]) -> None:
        await self._actor.call.remote("announce", list(images))

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        fault: str | None = await self._actor.call.remote("verify", task, patient=patient)
        return fault

    async def regression_score(self, task: Task, patch: str) -> float:
        score: float = await self._actor.call.remote("regression_score", task, patch)
        return score

    async def run(self, plan: AttemptPlan) -> Trajectory:
        """A cancelled wait cancels the attempt, which gives its sandbox back."""
        reference = self._actor.call.remote("run", plan)
        try:
            trajectory: Trajectory = await reference
        except BaseException:
            ray.cancel(reference)
            raise
        return trajectory

    async def close(self) -> None:
        if self._actor is not None:
            await self._actor.call.remote("close")
            ray.kill(self._actor)
            self._actor = None
