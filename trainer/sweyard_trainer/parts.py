"""What a run is made of: the learner as the main loop sees it, tasks, workers, and where progress goes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.progress.run_progress import RunProgress
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollouts.seen_tokens import SeenTokens
from sweyard_trainer.trajectory import Segment, Trajectory
from sweyard_trainer.weight_sync.weight_sync import WeightSync


class Trains(Protocol):
    """What the loop needs of the learner; see sweyard_trainer.learner.learner.Learner."""

    async def start(self) -> None: ...

    async def sft_step(self, sequences: Sequence[Segment]) -> Mapping[str, float]: ...

    async def train_step(self, groups: Sequence[Sequence[Trajectory]], version: int) -> Mapping[str, float]: ...

    def take_seen(self) -> Sequence[SeenTokens]: ...

    async def save_weights(self, version: int) -> Path: ...

    async def save_checkpoint(
        self,
        step: int,
        extra: Mapping[str, Any],
        best_first: Sequence[int] = (),
        *,
        held: Sequence[Trajectory] = (),
        in_warmup: bool = False,
    ) -> str: ...

    async def settle_checkpoint(self, *, wait: bool = True) -> bool: ...

    async def load_latest(self) -> tuple[int, dict[str, Any]] | None: ...

    async def load_held(self) -> list[Trajectory]: ...

    async def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None: ...

    async def open_handover(self, engine_urls: Sequence[str]) -> None: ...

    async def send_weights(self) -> None: ...

    async def release_memory(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a run is made of."""

    spec: TrainingRunSpec
    run_id: str
    storage: Path
    train_tasks: Sequence[Task]
    eval_tasks: Mapping[str, Sequence[Task]]
    """By the name of the source."""
    demonstrations: Callable[[], list[Segment]]
    """Made when they are needed."""
    learner: Trains
    pool: WorkerPool
    weight_sync: WeightSync
    """Brings weights into the engines that are servers, and watches these."""
    progress: RunProgress
