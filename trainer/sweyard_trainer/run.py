"""One process's run: prepare the model, start the learner, go through the main loop. Shared by cluster and laptop."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.assembly import assemble_run
from sweyard_trainer.custom import check_custom_code
from sweyard_trainer.environment import Environment
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.frozen import FrozenPolicy
from sweyard_trainer.parts import Trains
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.progress.cluster_status import ClusterStatus
from sweyard_trainer.storage_errors import typed_storage_errors
from sweyard_trainer.train import TrainingLoop
from sweyard_trainer.weight_sync.build import make_weight_sync


async def run_training(
    spec: TrainingRunSpec,
    environment: Environment,
    *,
    stop_signals: Sequence[signal.Signals],
    change_learner: Callable[[Trains], Trains] = lambda learner: learner,
) -> dict[str, Any]:
    """The run's summary. On one of `stop_signals` it checkpoints and raises StoppedError. Raises StorageFullError,
    StorageReadOnlyError, CheckpointError, WeightSyncError, EnginesGoneError.

    `change_learner` puts something between the loop and its learner, such as the control of an experiment.
    """
    check_custom_code(spec)
    with typed_storage_errors(environment.storage):
        await asyncio.to_thread(prepare_model, spec, environment.storage, environment.datasets)
        if needs_ray(spec):
            _connect_to_ray(environment)
        sink = None
        if environment.on_cluster:
            sink = ClusterStatus.in_cluster(environment.namespace, environment.run, environment.run_uid)
        learner = change_learner(_make_learner(spec, environment))
        weight_sync = make_weight_sync(spec, environment, learner)
        loop = TrainingLoop(await assemble_run(spec, environment, learner, weight_sync, sink))
        for number in stop_signals:
            asyncio.get_running_loop().add_signal_handler(number, loop.stop)
        return await loop.run()


def _make_learner(spec: TrainingRunSpec, environment: Environment) -> Trains:
    if spec.mode == "eval":
        return FrozenPolicy(environment.storage)
    return make_learner(spec, environment.storage, checkpoints=checkpoint_root(spec, environment))


def checkpoint_root(spec: TrainingRunSpec, environment: Environment) -> str:
    """On the run's volume, or in a folder of its own below checkpoint.url: a run that is made anew begins anew."""
    if spec.checkpoint.url is None:
        return str(environment.storage / "checkpoints")
    name = "-".join(filter(None, (environment.run, environment.run_uid[:8])))
    return f"{spec.checkpoint.url.rstrip('/')}/{name}"


def needs_ray(spec: TrainingRunSpec) -> bool:
    """One learner process, or none, and one rollout worker do without; pods that are there for their engines do not."""
    if spec.mode == "eval":
        ranks = spec.trainer.replicas if spec.inference.placement == "colocated" else 0
    else:
        ranks = spec.trainer.replicas * spec.trainer.processes_per_replica
    return ranks > 1 or spec.rollout.workers > 1


def _connect_to_ray(environment: Environment) -> None:
    """To the gang's own cluster of pods, or to one made here for this process."""
    import ray

    address = "auto" if environment.on_cluster else "local"
    ray.init(address=address, include_dashboard=False, log_to_driver=True, logging_level="WARNING")
