"""A run without a model: a learner that only counts, workers whose reward is a rule."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweyard_api.resolve import resolve
from sweyard_api.training_run import TrainerStatus, TrainingRunSpec
from sweyard_sandbox.errors import FailureReason, SweyardError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.checkpoint.saved import Saved
from sweyard_trainer.parts import Run
from sweyard_trainer.progress.reporter import ProgressReporter
from sweyard_trainer.progress.run_progress import RunProgress, plan_phases
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.plan import AttemptPlan, derive_seed
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.worker import VerificationTimeoutError
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.rollouts.seen_tokens import SeenTokens
from sweyard_trainer.trajectory import Segment, Trajectory

SPEC: dict[str, Any] = {
    "steps": 6,
    "model": {"scratch": {}},
    "agent": {"type": "short"},
    "tasks": {"train": {"dataset": "train"}, "eval": [{"dataset": "held"}]},
    "rollout": {"groupsPerStep": 2, "groupSize": 3, "maxConcurrent": 4},
    "reward": {"verifyTasks": False},
    "warmup": {"steps": 3, "batchSize": 2},
    "evaluation": {"everySteps": 3},
    "checkpoint": {"everySteps": 2},
    "logging": {"tensorboard": False},
}


class CrashError(Exception):
    """The process dies here."""


@dataclass
class World:
    """What outlives the process, and where it dies."""

    storage: Path
    events: list[str] = field(default_factory=list)
    crash_at: int | None = None
    ended: list[str] = field(default_factory=list)
    """What has given back what it held."""

    def event(self, name: str) -> None:
        """Something happened; the process may die right before it."""
        if self.crash_at is not None and len(self.events) >= self.crash_at:
            self.crash_at = None
            raise CrashError(name)
        self.events.append(name)


class CountingLearner:
    """Its weights are one number, a function of all it was trained on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._directory = world.storage / "checkpoints"
        self.weights = 0
        self.best_first: list[int] = []
        self.failure: Exception | None = None
        """What becomes of the checkpoint that is being written."""

    async def start(self) -> None:
        self._world.event("start")

    async def sft_step(self, sequences: Sequence[Segment]) -> Mapping[str, float]:
        self._world.event("sft")
        self.weights = derive_seed(self.weights, *(int(segment.token_ids[0]) for segment in sequences))
        return {"loss": 1.0}

    async def train_step(self, groups: Sequence[Sequence[Trajectory]], version: int) -> Mapping[str, float]:
        self._world.event("train")
        self.weights = derive_seed(self.weights, *sorted(attempt.attempt_id for group in groups for attempt in group))
        return {"loss": 0.5}

    def take_seen(self) -> Sequence[SeenTokens]:
        return [SeenTokens("1/a/0", 0, np.zeros(1, np.float32), np.ones(1, np.float32))]

    async def save_weights(self, version: int) -> Path:
        self._world.event(f"weights {version}")
        return self._world.storage / "weights" / str(version)

    async def save_checkpoint(
        self,
        step: int,
        extra: Mapping[str, Any],
        best_first: Sequence[int] = (),
        *,
        held: Sequence[Trajectory] = (),
        in_warmup: bool = False,
    ) -> str:
        name = Saved(not in_warmup, step).name
        self._world.event(f"checkpoint {name}")
        self.best_first = list(best_first)
        self._directory.mkdir(exist_ok=True)
        path = self._directory / name
        path.write_text(json.dumps({"step": step, "extra": extra, "weights": self.weights}))
        seal(self._directory / f"held-{name}", held)
        return str(path)

    async def settle_checkpoint(self, *, wait: bool = True) -> bool:
        if self.failure is not None:
            raise self.failure
        return True

    async def load_latest(self) -> tuple[int, dict[str, Any]] | None:
        found = [saved for path in self._directory.glob("*") if (saved := Saved.parse(path.name))]
        if not found:
            return None
        self._loaded = max(found).name
        latest = json.loads((self._directory / self._loaded).read_text())
        self.weights = latest["weights"]
        return latest["step"], latest["extra"]

    async def load_held(self) -> list[Trajectory]:
        return read_attempts(self._directory / f"held-{self._loaded}.parquet")

    async def stop(self) -> None:
        self._world.ended.append("learner")


class EventfulSync:
    """Engines that are well until told otherwise."""

    reads_files = True
    scalable = None
    absent_at = -math.inf

    def __init__(self, world: World) -> None:
        self._world = world
        self.gone: asyncio.Future[SweyardError] | None = None
        self.fixed_version: int | None = None
        self.rests = False
        """Whether the learner may compute where engines share its GPUs."""

    def sampled_version(self, published: int) -> int:
        return published if self.fixed_version is None else self.fixed_version

    async def rest(self) -> None:
        self.rests = True

    async def publish(self, version: int) -> None:
        self._world.event(f"publish {version}")
        self.rests = False

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self.on_change = on_change
        self.gone = asyncio.get_running_loop().create_future()
        raise await self.gone


class RuleWorker:
    """Every second attempt of a group is solved."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.version = -1

    async def start(self) -> None: ...

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        self.version = version

    async def announce(self, images: Sequence[str]) -> None: ...

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        if task.id.startswith("slow") and not (patient and task.id == "slow-once"):
            raise VerificationTimeoutError(FailureReason.ERROR, "the tests took too long")
        return "broken" if task.id.startswith("faulty") else None

    async def regression_score(self, task: Task, patch: str) -> float:
        raise NotImplementedError

    async def run(self, plan: AttemptPlan) -> Trajectory:
        self._world.event(f"attempt {plan.attempt_id} by {self.version}")
        solved = int(plan.attempt_id.rsplit("/", 1)[1]) % 2 == 0
        return replace(masked(plan, Outcome.SOLVED if solved else Outcome.UNSOLVED, ""), reward=float(solved))

    async def close(self) -> None:
        self._world.ended.append("worker")


def make_tasks(names: Sequence[str]) -> list[Task]:
    return [
        Task(
            id=name,
            repository="r",
            image="i:1",
            working_directory="/",
            problem_statement="p",
            gold_patch="g",
            fail_to_pass=("t",),
        )
        for name in names
    ]


def make_demonstrations() -> list[Segment]:
    return [
        Segment(np.full(2, n, np.int32), np.ones(2, np.bool_), np.zeros(2, np.float32), np.zeros(2, np.int32))
        for n in range(5)
    ]


@dataclass
class Life:
    """One process of the run."""

    run: Run
    learner: CountingLearner
    worker: RuleWorker


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def make_life() -> Callable[..., Life]:
    def make(
        world: World, train: Sequence[str] = "abcdefg", held: Sequence[str] = ("x", "y", "z"), **changes: Any
    ) -> Life:
        spec: TrainingRunSpec = resolve({**SPEC, **changes})
        learner, worker = CountingLearner(world), RuleWorker(world)
        reporter = ProgressReporter(world.storage, TrainerStatus(), monotonic=time.monotonic)

        run = Run(
            spec=spec,
            run_id="run",
            storage=world.storage,
            train_tasks=make_tasks(train),
            eval_tasks={"held": make_tasks(held)},
            demonstrations=make_demonstrations,
            learner=learner,
            pool=WorkerPool([worker], spec.rollout.max_concurrent),
            weight_sync=EventfulSync(world),
            progress=RunProgress(reporter, plan_phases(spec, len(held)), spec.training_steps),
        )
        return Life(run, learner, worker)

    return make


@pytest.fixture
def crash() -> Callable[..., AbstractAsyncContextManager[None]]:
    """A block in which a life ends by a crash. What it has begun in threads ends, too, before another begins: a process
    that is killed takes them along."""

    @asynccontextmanager
    async def crashing(match: str | None = None) -> AsyncIterator[None]:
        threads = ThreadPoolExecutor()
        asyncio.get_running_loop().set_default_executor(threads)
        with pytest.raises(CrashError, match=match):
            yield
        threads.shutdown()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

    return crashing
