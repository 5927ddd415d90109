"""The policy phase: a step's rollouts, then its update. Nothing samples while weights change."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.errors import NothingToTrainError, StoppedError
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.metrics import prefixed, rollout_metrics
from sweyard_trainer.phases.life import Life
from sweyard_trainer.rollout.record import AttemptLog
from sweyard_trainer.rollout.step import StepRollouts, StepRules, StepScheduler
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

MAX_STEPS_WITHOUT_SIGNAL = 5
"""So many steps in a row without any signal end the run, with dynamic sampling or if there was nothing to train."""


class NoSignalError(SweyardError, ValueError):
    """The tasks teach nothing: all attempts at each are alike."""


class Policy:
    """Steps of reinforcement learning. Made once the state of an earlier life is taken over."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._rules = step_rules(life.spec)
        tasks = {task.id: task for task in life.run.train_tasks}
        self._scheduler = StepScheduler(tasks, life.cursor, life.run.pool, self._rules, life.state.verified)

    async def step(self) -> dict[str, float]:
        """One step; its figures. Raises NoSignalError, NoTasksError, NothingToTrainError."""
        began = time.monotonic()
        number = self._life.state.step + 1
        progress = self._life.run.progress
        progress.update(phase="rl", message=f"step {number}: attempts under way")
        rollouts = await self._collect(number)
        with_signal = sum(map(self._rules.teaches, rollouts.groups))
        self._count_silent_steps(with_signal)
        rolled = time.monotonic()
        progress.update(message=f"step {number}: training")
        trained = await self._train(rollouts.groups)
        figures = prefixed("rollout", rollout_metrics(rollouts, with_signal, rolled - began))
        times = {"time/rollout_seconds": rolled - began, "time/train_seconds": time.monotonic() - rolled}
        return {**figures, **prefixed("train", trained), **times}

    async def _train(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """A batch of which nothing can be trained is a step without an update, but not time and again."""
        state = self._life.state
        try:
            return await self._life.run.learner.train_step(groups)
        except NothingToTrainError as error:
            if state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
                raise
            logger.warning("step %d trains nothing: %s", state.step + 1, error)
            return {"updates": 0.0}

    async def _collect(self, number: int) -> StepRollouts:
        """The step's rollouts; if it is stopped, the next life draws the same tasks again."""
        life = self._life
        before = life.cursor.state()
        try:
            with AttemptLog(life.run.storage / "rollouts" / f"step-{number:06d}.jsonl") as log:
                return await life.stop.or_else(self._scheduler.collect(number, self._watch(log.write)))
        except StoppedError:
            life.cursor.restore(before)
            raise

    def _count_silent_steps(self, with_signal: int) -> None:
        state, algorithm = self._life.state, self._life.spec.algorithm
        state.silent_steps = 0 if with_signal else state.silent_steps + 1
        if algorithm.dynamic_sampling and state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
            raise NoSignalError(
                f"in {state.silent_steps} steps, refills included, no group's rewards differed: "
                "choose tasks that this model sometimes solves, or set algorithm.dynamicSampling to false"
            )

    def _watch(self, write: Callable[[Trajectory], None]) -> Callable[[Trajectory], None]:
        def on_attempt(attempt: Trajectory) -> None:
            write(attempt)
            self._life.run.progress.attempt_done(attempt)

        return on_attempt


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
