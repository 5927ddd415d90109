"""A Run put together from its resolved config and its environment."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sweyard_api.training_run import TrainerStatus, TrainingRunSpec
from sweyard_api.workload import TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_trainer.environment import Environment
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.parts import Run, Trains
from sweyard_trainer.prepare import demonstrated_tasks
from sweyard_trainer.progress.reporter import ProgressReporter, StatusSink
from sweyard_trainer.progress.run_progress import RunProgress, plan_phases
from sweyard_trainer.rollout.build import make_workers
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.trajectory import Segment
from sweyard_trainer.warmup import recorded_demonstrations, scripted_demonstrations


async def assemble_run(
    spec: TrainingRunSpec,
    environment: Environment,
    learner: Trains,
    publish: Callable[[int], Awaitable[None]],
    sink: StatusSink | None,
) -> Run:
    """Load the tasks and make the workers; nothing runs yet.

    Raises DatasetError, TaskFormatError, TemplateUnfitError with a sentence for the user.
    """
    train_tasks = load_tasks(spec.tasks.train, environment.datasets)
    eval_tasks = {source_name(source): load_tasks(source, environment.datasets) for source in spec.tasks.eval}
    attempts = sum(map(len, eval_tasks.values())) * spec.evaluation.attempts
    report = TrainerStatus(attempt=environment.attempt, total_steps=spec.steps)
    reporter = ProgressReporter(environment.storage, report, sink=sink, monotonic=time.monotonic)
    return Run(
        spec=spec,
        run_id=environment.run,
        storage=environment.storage,
        train_tasks=train_tasks,
        eval_tasks=eval_tasks,
        demonstrations=lambda: make_demonstrations(spec, environment),
        learner=learner,
        pool=WorkerPool(await make_workers(spec, environment), spec.rollout.max_concurrent),
        publish=publish,
        progress=RunProgress(reporter, plan_phases(spec, attempts), spec.steps),
    )


def source_name(source: TaskSource) -> str:
    """As in metrics and file names."""
    return source.name or "-".join(filter(None, (source.dataset.rsplit("/", 1)[-1], source.split)))


def make_demonstrations(spec: TrainingRunSpec, environment: Environment) -> list[Segment]:
    """What the supervised phase imitates: recorded trajectories, or a scripted solver's."""
    renderer = ChatRenderer.load(environment.storage / "model")
    warmup = spec.warmup
    assert warmup is not None, "mode sft without warmup is refused when the config is resolved"
    if warmup.dataset is not None:
        return recorded_demonstrations(Path(warmup.dataset), renderer)
    tasks = load_tasks(demonstrated_tasks(spec), environment.datasets)
    agent = make_agent(spec.agent)
    return scripted_demonstrations(tasks, agent, renderer, correct_fraction=warmup.correct_fraction, seed=spec.seed)
