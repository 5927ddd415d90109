"""Life: what the phases of one process share, from its start or its last checkpoint until it ends."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.engine import EngineError
from sweyard_trainer.errors import EnginesGoneError, WeightSyncError
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.metrics import METRICS_FILE, Metrics
from sweyard_trainer.parts import Run
from sweyard_trainer.restarts import record_restart
from sweyard_trainer.rollout.plan import TaskCursor
from sweyard_trainer.rollout.rules import make_backlog
from sweyard_trainer.stopping import Stop
from sweyard_trainer.trajectory import Trajectory
from sweyard_trainer.weight_sync.scaler import EngineScaler
from sweyard_trainer.weight_sync.scaling import EngineCount

logger = logging.getLogger(__name__)

WRITE_SECONDS = 3_600.0
"""For the ranks to write one version of the weights: far more than any model takes, far less than for ever."""
SWITCH_SECONDS = 600.0
"""For the workers to ask their engines and switch."""
SWITCH_PAUSE_SECONDS = 1.0
"""Until they ask again."""

T = TypeVar("T")


class Life:
    """State that a checkpoint keeps (`state`, `cursor`, `backlog`), and what goes with the process."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = LoopState()
        self.cursor = TaskCursor(tuple(task.id for task in run.train_tasks), run.spec.seed)
        self.backlog = make_backlog(run.spec)
        self.stop = Stop()
        self._metrics: Metrics | None = None
        self._switching = asyncio.Lock()
        self._served_version = 0
        self._num_engines: int | None = None
        """That new replies begin at; None: all."""
        self._watch: asyncio.Task[None] | None = None
        self._scaling: asyncio.Task[None] | None = None

    @property
    def spec(self) -> TrainingRunSpec:
        """The resolved config."""
        return self.run.spec

    @property
    def metrics_rows(self) -> int:
        """So many rows of metrics.jsonl are of what the state knows."""
        return self._metrics.num_rows if self._metrics else 0

    def position(self) -> str:
        """Where it stands, in words that follow "stopped"."""
        state, warmup = self.state, self.spec.warmup
        if state.in_warmup and warmup is not None:
            return f"in the warm-up after step {state.warmup_step} of {warmup.steps}"
        return f"after step {state.step}"

    def resume(self, saved: Mapping[str, object] | None, held: Sequence[Trajectory] = ()) -> None:
        """Take over what a checkpoint holds, `held` the backlog's attempts, and drop the metrics of steps that came
        after it."""
        if saved is not None:
            self.state = LoopState.from_dict(dict(saved))
            self.cursor.restore(self.state.cursor)
            if self.state.backlog:  # a version without one left nothing under way
                self.backlog.restore(self.state.backlog, held)
        run, state = self.run, self.state
        if (run.storage / METRICS_FILE).exists():
            record_restart(run.storage, state.step, datetime.now(UTC))
        self._metrics = Metrics(
            run.storage,
            self.spec.logging,
            run.run_id,
            keep_rows=state.metrics_rows,
            step=state.step,
            warmup_step=state.warmup_step,
        )
        run.progress.resume(state)

    def write_metrics(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """One row."""
        assert self._metrics is not None, "made by resume"
        self._metrics.write(phase, step, figures)

    async def sync_weights(self) -> None:
        """All engines that serve sample with what the learner has now, under the version that the state names.

        From the first time on they are watched. Raises WeightSyncError, EnginesGoneError.
        """
        version = self.state.weight_version
        async with self._switching:
            if self.run.weight_sync.reads_files:
                await self.write_weights(version)
            await self.run.weight_sync.publish(version)
            sampled = self.run.weight_sync.sampled_version(version)
            await _in_time(SWITCH_SECONDS, self._switch_to(sampled), f"workers did not switch to {version}")
            self._served_version = sampled
        self.run.progress.update(weight_version=self._served_version)
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_engines())
            self._scaling = self._begin_scaling()

    async def _switch_to(self, version: int) -> None:
        """A gateway that is away, as one that starts again, is waited for, and so is an engine that confirms; not by a
        life that is to end, of which nothing samples any more: with a run that is deleted its gateway goes, too."""
        while True:
            try:
                return await self.run.pool.use_weights(version, self._num_engines)
            except EngineError as error:
                if self.stop.is_asked:
                    return None
                logger.warning("workers wait for weights %d: %s", version, error)
                await asyncio.sleep(SWITCH_PAUSE_SECONDS)

    async def write_weights(self, version: int) -> None:
        """Write the policy to `<storage>/weights/<version>`. Raises WeightSyncError if that never ends."""
        await _in_time(WRITE_SECONDS, self.run.learner.save_weights(version), f"weights {version} were not written")

    async def write_last_weights(self) -> None:
        """The result of a run lies on its volume, also where its engines read no files."""
        if not self.run.weight_sync.reads_files:
            await self.write_weights(self.state.weight_version)

    async def _watch_engines(self) -> None:
        try:
            await self.run.weight_sync.watch(self._engines_changed)
        except EnginesGoneError as error:
            self.stop.ask(error)

    def _begin_scaling(self) -> asyncio.Task[None] | None:
        """Have as many engines serve as the attempts under way need, where the config allows fewer than all."""
        scaling, engines = self.spec.inference.scaling, self.run.weight_sync.scalable
        if scaling is None or engines is None:
            return None
        now = asyncio.get_running_loop().time()
        scaler = EngineScaler(
            engines,
            EngineCount.beginning(scaling, most=engines.most, serving=engines.num_serving, now=now),
            num_attempts=lambda: self.run.pool.occupancy.num_used,
            switch=self._use_engines,
            ask_for=lambda count: self.run.progress.update(engines=count),
        )
        return asyncio.create_task(scaler.run())

    async def _use_engines(self, count: int) -> None:
        self._num_engines = count
        await self._engines_changed()

    async def _engines_changed(self) -> None:
        """Have the workers use the engines of the moment, which the gateway asks itself."""
        async with self._switching:
            try:
                switched = self.run.pool.use_weights(self._served_version, self._num_engines)
                await _in_time(SWITCH_SECONDS, switched, "workers did not switch")
            except (EngineError, WeightSyncError) as error:
                logger.warning("attempts wait for an engine: %s", error)

    async def close(self) -> None:
        """End what the process holds; safe at any point of its life. What cannot be written keeps nothing back."""
        async with contextlib.AsyncExitStack() as ending:
            ending.push_async_callback(self.run.learner.stop)
            ending.push_async_callback(self.run.pool.close)
            ending.push_async_callback(self.run.progress.flush)
            if self._metrics is not None:
                ending.callback(self._metrics.close)
            for task in (self._scaling, self._watch):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task


async def _in_time(seconds: float, work: Awaitable[T], otherwise: str) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise WeightSyncError(f"{otherwise} within {seconds:g} s") from error
