"""The main loop: untrained evaluation, warm-up, evaluation, steps, final evaluation. Reads as a table of contents.

Invariants (tests/trainer/train):
- everything that decides what comes next is in LoopState, which is saved with each checkpoint: a run that was killed
  goes on with the same steps, the same tasks in the same order, and the same numbers of weight versions;
- all engines confirm the version of a step before it is begun; without staleness nothing samples while weights change,
  with it attempts under way go on under the new ones, and each reply says which weights sampled it;
- an evaluation is of one version: in reinforcement learning it goes on beside the next step, and has ended before that
  step's weights reach an engine or a checkpoint.
"""

import json
import time
from typing import Any

from sweyard_trainer.errors import StoppedError
from sweyard_trainer.parts import Run
from sweyard_trainer.phases.held_out import HeldOut
from sweyard_trainer.phases.life import Life
from sweyard_trainer.phases.policy import Policy
from sweyard_trainer.phases.saving import WARMUP_SECONDS_AT_STAKE, CheckpointKeeper
from sweyard_trainer.phases.supervised import Supervised

NEVER_TAUGHT = (
    "finished, and learned nothing from rewards: in no step did they differ within a group; choose tasks that this "
    "model sometimes solves, or a larger rollout.groupSize"
)


class TrainingLoop:
    """One life of a run, from its start or its last checkpoint."""

    def __init__(self, run: Run, *, warmup_seconds_at_stake: float = WARMUP_SECONDS_AT_STAKE) -> None:
        """A crash in the warm-up costs no more than `warmup_seconds_at_stake` of its steps."""
        self._run = run
        self._spec = run.spec
        self._life = Life(run)
        self._checkpoints = CheckpointKeeper(self._life, warmup_seconds_at_stake)
        self._supervised = Supervised(self._life, self._checkpoints)
        self._held_out = HeldOut(self._life)
        self._policy = Policy(self._life, self._held_out)

    def stop(self) -> None:
        """Ask to checkpoint and end soon; safe to call from a signal handler of the event loop."""
        self._life.stop.ask()

    async def run(self) -> dict[str, Any]:
        """The whole run; its summary. Raises StoppedError once `stop` was heeded."""
        try:
            # Nothing is lost before the first step: ranks that never come, and a large model, are not waited for.
            await self._life.stop.or_else(self._start())
            return await self._phases()
        except StoppedError as error:
            raise StoppedError(f"stopped {self._life.position()}") from error
        finally:
            await self._held_out.close()
            await self._policy.close()
            await self._life.close()

    async def _phases(self) -> dict[str, Any]:
        at_start = self._spec.evaluation.at_start
        try:
            await self._held_out.evaluate_once("untrained", wanted=self._spec.training_steps > 0 and at_start)
            await self._warm_up()
            await self._held_out.evaluate_once("warmed-up", wanted=self._supervised.warms_up and at_start)
            while self._life.state.step < self._spec.training_steps:
                await self._step()
            await self._checkpoints.finish()
            await self._life.write_last_weights()
            await self._held_out.evaluate_once("final", wanted=True)
            await self._checkpoints.finish()
            return self._finish()
        except StoppedError:
            await self._checkpoints.save()
            await self._checkpoints.finish()
            raise

    async def _start(self) -> None:
        progress = self._run.progress
        progress.update(phase="starting", message="loading the model")
        await progress.begin()
        await self._run.weight_sync.rest()
        await self._run.learner.start()
        await self._checkpoints.load()
        progress.update(message="starting the workers")
        await self._run.pool.start()
        if not self._life.state.in_warmup:  # weights that are no version yet; nothing samples before they are
            progress.update(message="giving the engines their weights, which waits until they have started")
            await self._life.sync_weights()

    async def _warm_up(self) -> None:
        if await self._supervised.warm_up():
            await self._life.sync_weights()
            await self._checkpoints.save()

    async def _step(self) -> None:
        began = time.monotonic()
        state = self._life.state
        self._held_out.begin_once(f"step-{state.step}", wanted=self._evaluates_beside and self._is_evaluated())
        figures = await (self._supervised.step() if self._spec.mode == "sft" else self._policy.step())
        state.step += 1
        state.weight_version += 1
        synced = time.monotonic()
        if self._spec.mode == "rl" or self._is_evaluated() or state.step == self._spec.training_steps:
            await self._life.sync_weights()
        now = time.monotonic()
        figures |= {"time/weight_sync_seconds": now - synced, "time/step_seconds": now - began}
        self._life.write_metrics(self._spec.mode, state.step, figures)
        self._run.progress.advance("step", 1, now - began)
        self._run.progress.step_done(state.step, figures)
        evaluated = self._is_evaluated()
        await self._held_out.evaluate_once(f"step-{state.step}", wanted=evaluated and not self._evaluates_beside)
        await self._checkpoints.after_step(self._spec.training_steps, wanted=evaluated and self._evaluates_beside)
        self._life.stop.heed()

    @property
    def _evaluates_beside(self) -> bool:
        """Whether evaluations between steps go on beside the next one, whose attempts need the same weights."""
        return self._spec.mode == "rl"

    def _is_evaluated(self) -> bool:
        """Whether an evaluation follows the step just done; those before all steps and after are another's affair."""
        every, step = self._spec.evaluation.every_steps, self._life.state.step
        return bool(every and self._run.eval_tasks) and step % every == 0 and 0 < step < self._spec.training_steps

    def _finish(self) -> dict[str, Any]:
        state = self._life.state
        summary = {
            "run": self._run.run_id,
            "mode": self._spec.mode,
            "steps": state.step,
            "weight_version": state.weight_version,
            "evaluations": state.evaluations,
            "tasks_set_aside": sorted(self._life.cursor.set_aside | state.eval_set_aside.keys()),
            "seconds": self._run.progress.seconds(),
        }
        partial = self._run.storage / "summary.tmp"
        partial.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._run.storage / "summary.json")
        self._run.progress.finish(NEVER_TAUGHT if self._never_taught else "finished")
        return summary

    @property
    def _never_taught(self) -> bool:
        """Which is no fault in itself: a few steps on hard tasks are like that."""
        state, estimator = self._life.state, self._spec.algorithm.estimator
        compares_groups = estimator in ("reinforce_plus_plus", "custom")
        return self._spec.mode == "rl" and 0 < state.step == state.silent_steps and not compares_groups
