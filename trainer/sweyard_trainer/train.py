"""The main loop: untrained evaluation, warm-up, evaluation, steps, final evaluation. Reads as a table of contents.

Invariants (tests/trainer/train):
- everything that decides what comes next is in LoopState, which is saved with each checkpoint: a run that was killed
  goes on with the same steps, the same tasks in the same order, and the same numbers of weight versions;
- nothing samples while weights change: a step's rollouts end before its training, and all engines confirm its version.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.errors import NothingToTrainError, StoppedError
from sweyard_trainer.held_out import HeldOut
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.metrics import Metrics, prefixed, rollout_metrics
from sweyard_trainer.parts import Run
from sweyard_trainer.rollout.plan import TaskCursor
from sweyard_trainer.rollout.record import AttemptLog
from sweyard_trainer.rollout.step import StepRollouts, StepRules, StepScheduler
from sweyard_trainer.stopping import Stop
from sweyard_trainer.trajectory import Segment, Trajectory
from sweyard_trainer.warmup import draw_batch

logger = logging.getLogger(__name__)

MAX_STEPS_WITHOUT_SIGNAL = 5
"""So many steps in a row without any signal end the run, with dynamic sampling or if there was nothing to train."""


class NoSignalError(SweyardError, ValueError):
    """The tasks teach nothing: all attempts at each are alike."""


class TrainingLoop:
    """One life of a run, from its start or its last checkpoint."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spec = run.spec
        self._rules = step_rules(self._spec)
        self._state = LoopState()
        self._cursor = TaskCursor(tuple(task.id for task in run.train_tasks), run.spec.seed)
        self._stop = Stop()
        self._checkpointed_step = -1
        self._demonstrations: list[Segment] | None = None
        self._metrics: Metrics | None = None

    def stop(self) -> None:
        """Ask to checkpoint and end soon; safe to call from a signal handler of the event loop."""
        self._stop.ask()

    async def run(self) -> dict[str, Any]:
        """The whole run; its summary. Raises StoppedError once `stop` was heeded."""
        try:
            await self._start()
            await self._evaluate_once("untrained", wanted=self._main_steps > 0 and self._spec.evaluation.at_start)
            await self._warm_up()
            await self._evaluate_once("warmed-up", wanted=self._warmed and self._spec.evaluation.at_start)
            while self._state.step < self._main_steps:
                await self._step()
            await self._evaluate_once("final", wanted=True)
            return await self._finish()
        except StoppedError as error:
            await self._checkpoint()
            raise StoppedError(f"stopped after step {self._state.step}") from error
        finally:
            if self._metrics is not None:
                self._metrics.close()
            await self._run.progress.flush()
            await self._run.pool.close()
            await self._run.learner.stop()

    @property
    def _warmed(self) -> bool:
        return self._spec.mode == "rl" and self._spec.warmup is not None

    @property
    def _main_steps(self) -> int:
        return 0 if self._spec.mode == "eval" else self._spec.steps

    # start and resume

    async def _start(self) -> None:
        self._run.progress.update(phase="starting", message="loading the model and starting the workers")
        await self._run.learner.start()
        found = await self._run.learner.load_latest()
        if found is not None:
            step, extra = found
            self._state = LoopState.from_dict(extra)
            self._cursor.restore(self._state.cursor)
            self._checkpointed_step = step
            logger.info("going on after step %d from its checkpoint", step)
        self._metrics = Metrics(
            self._run.storage,
            self._spec.logging,
            self._run.run_id,
            keep_rows=self._state.metrics_rows,
            step=self._state.step,
        )
        self._run.progress.resume(self._state)
        self._scheduler = StepScheduler(
            {task.id: task for task in self._run.train_tasks},
            self._cursor,
            self._run.pool,
            self._rules,
            self._state.verified,
        )
        await self._run.pool.start()
        await self._sync_weights()

    async def _sync_weights(self) -> None:
        """All engines sample with what the learner has now, under the version that the state names."""
        version = self._state.weight_version
        await self._run.learner.save_weights(version)
        await self._run.publish(version)
        await self._run.pool.use_weights(version)
        self._run.progress.update(weight_version=version)

    # warm-up

    async def _warm_up(self) -> None:
        warmup = self._spec.warmup
        if not self._warmed or warmup is None or self._state.warmed_up:
            return
        await self._supervised("warmup", warmup.steps, warmup.batch_size)
        self._state.warmed_up = True
        self._state.weight_version += 1
        await self._sync_weights()
        await self._checkpoint()

    async def _supervised(self, phase: str, steps: int, batch_size: int) -> None:
        self._run.progress.update(phase=phase, message="warm-up: preparing demonstrations")
        demonstrations = await asyncio.to_thread(self._run.demonstrations)
        self._run.progress.update(message=f"warm-up: {steps} steps on {len(demonstrations)} demonstrations")
        for step in range(steps):
            began = time.monotonic()
            batch = draw_batch(demonstrations, step, batch_size, self._spec.seed)
            figures = await self._run.learner.sft_step(batch)
            self._write_metrics(phase, step + 1, prefixed(phase, figures))
            told = f"warm-up: step {step + 1} of {steps}, loss {figures['loss']:.3f}"
            self._run.progress.advance("warmup", 1, time.monotonic() - began, message=told)
            self._stop.heed()

    # steps

    async def _step(self) -> None:
        began = time.monotonic()
        figures = await (self._sft_step() if self._spec.mode == "sft" else self._rl_step())
        self._state.step += 1
        self._state.weight_version += 1
        synced = time.monotonic()
        await self._sync_weights()
        now = time.monotonic()
        figures |= {"time/weight_sync_seconds": now - synced, "time/step_seconds": now - began}
        self._write_metrics(self._spec.mode, self._state.step, figures)
        self._run.progress.advance("step", 1, now - began)
        self._run.progress.step_done(self._state.step, figures)
        every = self._spec.evaluation.every_steps
        if every and self._state.step % every == 0 and self._state.step < self._main_steps:
            await self._evaluate_once(f"step-{self._state.step}", wanted=True)
        if self._state.step % self._spec.checkpoint.every_steps == 0 or self._state.step == self._main_steps:
            await self._checkpoint()
        self._stop.heed()

    async def _rl_step(self) -> dict[str, float]:
        began = time.monotonic()
        number = self._state.step + 1
        self._run.progress.update(phase="rl", message=f"step {number}: attempts under way")
        rollouts = await self._collect(number)
        with_signal = sum(map(self._rules.teaches, rollouts.groups))
        self._count_silent_steps(with_signal)
        rolled = time.monotonic()
        self._run.progress.update(message=f"step {number}: training")
        trained = await self._train(rollouts.groups)
        figures = prefixed("rollout", rollout_metrics(rollouts, with_signal, rolled - began))
        times = {"time/rollout_seconds": rolled - began, "time/train_seconds": time.monotonic() - rolled}
        return {**figures, **prefixed("train", trained), **times}

    async def _train(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """A batch of which nothing can be trained is a step without an update, but not time and again."""
        try:
            return await self._run.learner.train_step(groups)
        except NothingToTrainError as error:
            if self._state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
                raise
            logger.warning("step %d trains nothing: %s", self._state.step + 1, error)
            return {"updates": 0.0}

    async def _collect(self, number: int) -> StepRollouts:
        """The step's rollouts; if it is stopped, the next life draws the same tasks again."""
        before = self._cursor.state()
        try:
            with AttemptLog(self._run.storage / "rollouts" / f"step-{number:06d}.jsonl") as log:
                return await self._stop.or_else(self._scheduler.collect(number, self._watch(log.write)))
        except StoppedError:
            self._cursor.restore(before)
            raise

    async def _sft_step(self) -> dict[str, float]:
        warmup = self._spec.warmup
        if self._demonstrations is None:
            self._demonstrations = await asyncio.to_thread(self._run.demonstrations)
        size = warmup.batch_size if warmup else self._spec.rollout.groups_per_step * self._spec.rollout.group_size
        batch = draw_batch(self._demonstrations, self._state.step, size, self._spec.seed)
        return prefixed("train", await self._run.learner.sft_step(batch))

    def _count_silent_steps(self, with_signal: int) -> None:
        self._state.silent_steps = 0 if with_signal else self._state.silent_steps + 1
        if self._spec.algorithm.dynamic_sampling and self._state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
            raise NoSignalError(
                f"in {self._state.silent_steps} steps, refills included, no group's rewards differed: "
                "choose tasks that this model sometimes solves, or set algorithm.dynamicSampling to false"
            )

    # evaluation

    async def _evaluate_once(self, label: str, *, wanted: bool) -> None:
        """Evaluate and remember it, unless an earlier life of the run already did."""
        if not wanted or not self._run.eval_tasks or label in self._state.evaluations:
            return
        self._run.progress.update(phase="evaluating", message=f"evaluation: {label}")
        results = await self._stop.or_else(HeldOut(self._run, self._state).evaluate(label))
        self._state.evaluations[label] = [result.report() for result in results]
        figures = {
            name: value
            for result in results
            for name, value in prefixed(f"eval/{result.source}", result.metrics()).items()
        }
        self._write_metrics("evaluation", self._state.step, figures)
        self._run.progress.evaluated({result.source: result.solved_fraction for result in results})

    # ends

    async def _finish(self) -> dict[str, Any]:
        summary = {
            "run": self._run.run_id,
            "mode": self._spec.mode,
            "steps": self._state.step,
            "weight_version": self._state.weight_version,
            "evaluations": self._state.evaluations,
            "tasks_set_aside": sorted(self._cursor.set_aside | self._state.eval_set_aside.keys()),
            "seconds": self._run.progress.seconds(),
        }
        partial = self._run.storage / "summary.tmp"
        partial.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._run.storage / "summary.json")
        self._run.progress.finish()
        return summary

    async def _checkpoint(self) -> None:
        if self._spec.mode == "eval" or (self._state.step == 0 and not self._state.warmed_up):
            return
        if self._checkpointed_step == self._state.step:
            return
        self._state.cursor = self._cursor.state()
        self._state.metrics_rows = self._metrics.num_rows if self._metrics else 0
        self._state.seconds = self._run.progress.seconds()
        path = await self._run.learner.save_checkpoint(self._state.step, self._state.to_dict())
        self._checkpointed_step = self._state.step
        name = str(path.relative_to(self._run.storage))
        self._run.progress.update(last_checkpoint=name, last_checkpoint_step=self._state.step)

    def _watch(self, write: Callable[[Trajectory], None]) -> Callable[[Trajectory], None]:
        def on_attempt(attempt: Trajectory) -> None:
            write(attempt)
            self._run.progress.attempt_done(attempt)

        return on_attempt

    def _write_metrics(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        assert self._metrics is not None, "made when the run starts"
        self._metrics.write(phase, step, figures)


def step_rules(spec: TrainingRunSpec) -> StepRules:
    """What the config says about a step."""
    rollout = spec.rollout
    deadline = rollout.step_deadline_seconds or spec.agent.timeout_seconds + spec.reward.timeout_seconds
    return StepRules(
        groups=rollout.groups_per_step,
        group_size=rollout.group_size,
        temperature=rollout.temperature,
        deadline_seconds=float(deadline),
        teaches=group_signal(spec.algorithm, rollout.max_response_tokens),
        dynamic_sampling=spec.algorithm.dynamic_sampling,
        max_refills=spec.algorithm.max_refills,
        verify_tasks=spec.reward.verify_tasks,
        seed=spec.seed,
    )
