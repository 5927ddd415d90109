"""The learner that a config asks for."""

from pathlib import Path

import torch

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.learner.learner import Learner
from sweyard_trainer.learner.ranks import LocalRank, RankGroup


def make_learner(
    spec: TrainingRunSpec, storage: Path, num_threads: int | None = None, checkpoints: str | None = None
) -> Learner:
    """One rank trains in this process; more are actors of the Ray cluster that this process is connected to.

    `num_threads` bounds PyTorch's threads of each rank on CPUs; None leaves its default. `checkpoints` is a path or
    URL, by default on the run's volume. Raises UnsupportedError for a URL that cannot be opened.
    """
    store = CheckpointStore(checkpoints or str(storage / "checkpoints"))
    return Learner(spec, storage, _make_ranks(spec, storage, num_threads), store)


def _make_ranks(spec: TrainingRunSpec, storage: Path, num_threads: int | None) -> RankGroup:
    if spec.trainer.replicas * spec.trainer.processes_per_replica == 1:
        return LocalRank(spec, storage, num_threads)
    from sweyard_trainer.learner.ray_ranks import RayRanks

    on_gpus = spec.trainer.device == "cuda" or (spec.trainer.device == "auto" and torch.cuda.is_available())
    return RayRanks(spec, storage, gpus_per_rank=int(on_gpus), num_threads=num_threads)
