"""Ranks as Ray actors, spread over the gang's pods: `trainer.replicas` bundles of `processesPerReplica`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import RankDiedError
from sweyard_trainer.learner.lost_ranks import typed_rank_loss
from sweyard_trainer.learner.rank_worker import RankWorker


class RayRanks:
    """Needs ray.init to have been called. Rank 0 lies on the first bundle."""

    def __init__(
        self, spec: TrainingRunSpec, storage: Path, *, gpus_per_rank: int = 0, num_threads: int | None = None
    ) -> None:
        self._spec, self._storage = spec, storage
        self._gpus_per_rank, self._num_threads = gpus_per_rank, num_threads
        self._group: PlacementGroup | None = None
        self._actors: list[Any] = []

    @property
    def size(self) -> int:
        return self._spec.trainer.replicas * self._spec.trainer.processes_per_replica

    async def start(self) -> None:
        each = self._spec.trainer.processes_per_replica
        bundle = {"CPU": float(each)} | ({"GPU": float(each * self._gpus_per_rank)} if self._gpus_per_rank else {})
        strategy = "STRICT_SPREAD" if self._spec.trainer.replicas > 1 else "PACK"
        self._group = placement_group([bundle] * self._spec.trainer.replicas, strategy=strategy)
        await self._group.ready()
        self._actors = [self._actor(rank, rank // each) for rank in range(self.size)]
        host = await self._actors[0].host.remote()
        [port] = await self._gather([self._actors[0].call.remote("open_store", (host,))])
        await self.call("connect", [(host, port)] * self.size)

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        pairs = zip(self._actors, per_rank, strict=True)
        return await self._gather([actor.call.remote(method, arguments) for actor, arguments in pairs])

    async def stop(self) -> None:
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None

    def _actor(self, rank: int, bundle: int) -> Any:
        placed = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        options = {"num_cpus": 1, "num_gpus": self._gpus_per_rank, "scheduling_strategy": placed, "max_restarts": 0}
        arguments = (rank, self.size, self._spec.model_dump_json(), str(self._storage), self._num_threads)
        return ray.remote(_RankActor).options(**options).remote(*arguments)

    async def _gather(self, references: list[Any]) -> list[Any]:
        """The first failure wins at once: the others may wait for the dead rank in a collective for ever."""
        try:
            return list(await asyncio.gather(*references))
        except RayTaskError as error:
            raise error.cause from error
        except RayActorError as error:
            raise RankDiedError(f"a rank of the learner died: {error}") from error


class _RankActor:
    """A RankWorker in a process of Ray."""

    def __init__(self, rank: int, size: int, spec: str, storage: str, num_threads: int | None) -> None:
        self._worker = RankWorker(rank, size, TrainingRunSpec.model_validate_json(spec), Path(storage), num_threads)

    def host(self) -> str:
        return str(ray.util.get_node_ip_address())

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        with typed_rank_loss():  # whichever rank's failure is seen first
            return getattr(self._worker, method)(*arguments)
