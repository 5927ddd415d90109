"""Life: what the phases of one process share, from its start or its last checkpoint until it ends."""

from collections.abc import Mapping

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.metrics import Metrics
from sweyard_trainer.parts import Run
from sweyard_trainer.rollout.plan import TaskCursor
from sweyard_trainer.rollout.rules import make_backlog
from sweyard_trainer.stopping import Stop


class Life:
    """State that a checkpoint keeps (`state`, `cursor`, `backlog`), and what goes with the process."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = LoopState()
        self.cursor = TaskCursor(tuple(task.id for task in run.train_tasks), run.spec.seed)
        self.backlog = make_backlog(run.spec)
        self.stop = Stop()
        self._metrics: Metrics | None = None

    @property
    def spec(self) -> TrainingRunSpec:
        """The resolved config."""
        return self.run.spec

    @property
    def metrics_rows(self) -> int:
        """So many rows of metrics.jsonl are of what the state knows."""
        return self._metrics.num_rows if self._metrics else 0

    def resume(self, saved: Mapping[str, object] | None) -> None:
        """Take over what a checkpoint holds, and drop the metrics of steps that came after it."""
        if saved is not None:
            self.state = LoopState.from_dict(dict(saved))
            self.cursor.restore(self.state.cursor)
            if self.state.backlog:  # a version without one left nothing under way
                self.backlog.restore(self.state.backlog)
        run, state = self.run, self.state
        self._metrics = Metrics(
            run.storage, self.spec.logging, run.run_id, keep_rows=state.metrics_rows, step=state.step
        )
        run.progress.resume(state)

    def write_metrics(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """One row."""
        assert self._metrics is not None, "made by resume"
        self._metrics.write(phase, step, figures)

    async def sync_weights(self) -> None:
        """All engines sample with what the learner has now, under the version that the state names."""
        version = self.state.weight_version
        await self.run.learner.save_weights(version)
        await self.run.publish(version)
        await self.run.pool.use_weights(version)
        self.run.progress.update(weight_version=version)

    async def close(self) -> None:
        """End what the process holds; safe at any point of its life."""
        if self._metrics is not None:
            self._metrics.close()
        await self.run.progress.flush()
        await self.run.pool.close()
        await self.run.learner.stop()
