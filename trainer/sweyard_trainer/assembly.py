"""A Run put together from its resolved config and its environment."""

import time
from pathlib import Path

from sweyard_api.sft import Sft
from sweyard_api.training_run import TrainerStatus, TrainingRunSpec
from sweyard_api.workload import TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_trainer.demonstrations.recorded import Recorded, take_chats
from sweyard_trainer.demonstrations.rollouts import take_rollouts
from sweyard_trainer.demonstrations.scripted import scripted_demonstrations
from sweyard_trainer.environment import Environment
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.parts import Run, Trains
from sweyard_trainer.prepare import demonstrated_tasks
from sweyard_trainer.progress.reporter import ProgressReporter, StatusSink
from sweyard_trainer.progress.run_progress import RunProgress, plan_phases
from sweyard_trainer.rollout.build import make_workers
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.runtimes import demand_fitting_images, runtime_kind
from sweyard_trainer.trajectory import Segment
from sweyard_trainer.weight_sync.weight_sync import WeightSync


async def assemble_run(
    spec: TrainingRunSpec,
    environment: Environment,
    learner: Trains,
    weight_sync: WeightSync,
    sink: StatusSink | None,
) -> Run:
    """Load the tasks and make the workers; nothing runs yet.

    Raises DatasetError, TaskFormatError, TemplateUnfitError, UnsupportedError with a sentence for the user.
    """
    # The other modes draw no training tasks, and these need not be there.
    train = spec.tasks.train if spec.mode == "rl" else None
    train_tasks = load_tasks(train, environment.datasets) if train else []
    eval_tasks = {source_name(source): load_tasks(source, environment.datasets) for source in spec.tasks.eval}
    attempts = sum(map(len, eval_tasks.values())) * spec.evaluation.attempts
    report = TrainerStatus(attempt=environment.attempt, total_steps=spec.training_steps)
    reporter = ProgressReporter(environment.storage, report, sink=sink, monotonic=time.monotonic)
    tasks = [*train_tasks, *(task for own in eval_tasks.values() for task in own)]
    if tasks:
        demand_fitting_images(runtime_kind(spec, environment), tasks)
    workers = await make_workers(spec, environment) if tasks else []
    return Run(
        spec=spec,
        run_id=environment.run,
        storage=environment.storage,
        train_tasks=train_tasks,
        eval_tasks=eval_tasks,
        demonstrations=lambda: make_demonstrations(spec, environment),
        learner=learner,
        pool=WorkerPool(workers, spec.rollout.max_concurrent),
        weight_sync=weight_sync,
        progress=RunProgress(reporter, plan_phases(spec, attempts), spec.training_steps),
    )


def source_name(source: TaskSource) -> str:
    """As in metrics and file names."""
    return source.name or "-".join(filter(None, (source.dataset.rsplit("/", 1)[-1], source.split)))


def make_demonstrations(spec: TrainingRunSpec, environment: Environment) -> list[Segment]:
    """What supervised steps imitate: the trajectories of mode sft, or those of the warm-up.

    Raises DemonstrationFileError.
    """
    model = environment.storage / "model"
    renderer = ChatRenderer.load(model)
    if spec.mode == "sft":
        assert spec.sft is not None, "mode sft without sft is refused when the config is resolved"
        return recorded_trajectories(spec.sft, model, renderer)
    warmup = spec.warmup
    assert warmup is not None, "asked by the warm-up alone"
    if warmup.dataset is not None:
        recorded = Recorded()
        take_chats(recorded, Path(warmup.dataset).expanduser(), renderer)
        return recorded.checked()
    tasks = load_tasks(demonstrated_tasks(spec), environment.datasets)
    agent = make_agent(spec.agent)
    return scripted_demonstrations(tasks, agent, renderer, correct_fraction=warmup.correct_fraction, seed=spec.seed)


def recorded_trajectories(sft: Sft, model: Path, renderer: ChatRenderer) -> list[Segment]:
    """Chats and rollouts that a resolved `sft` names, in its order. Raises DemonstrationFileError."""
    recorded = Recorded()
    for dataset in sft.datasets:
        take_chats(recorded, Path(dataset).expanduser(), renderer, sft.max_tokens)
    for run in sft.rollouts:
        assert sft.min_reward is not None, "set when the config was resolved"
        take_rollouts(
            recorded,
            Path(run).expanduser(),
            model,
            renderer,
            min_reward=sft.min_reward,
            max_tokens=sft.max_tokens,
        )
    return recorded.checked()
