"""The policy phase: a step's rollouts, then its update, while which the rollouts of later steps may go on."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.errors import NothingToTrainError
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.metrics import prefixed, rollout_metrics
from sweyard_trainer.phases.held_out import HeldOut
from sweyard_trainer.phases.life import Life
from sweyard_trainer.rollout.groups import StepRollouts
from sweyard_trainer.rollout.rules import stream_rules
from sweyard_trainer.rollout.stream import RolloutStream
from sweyard_trainer.rollout.verification import TaskVerifier
from sweyard_trainer.rollouts.files import ROLLOUTS, UNDER_WAY, step_label
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.rollouts.seen_tokens import drop_seen, write_seen
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

MAX_STEPS_WITHOUT_SIGNAL = 5
"""So many steps in a row without any signal end the run, with dynamic sampling or if there was nothing to train."""
LAST_WORDS_CHARACTERS = 300


class NoSignalError(SweyardError, ValueError):
    """The tasks teach nothing: all attempts at each are alike."""


class AgentFailsError(SweyardError, ValueError):
    """It is the agent that ends every attempt, so that nothing is learned of the model."""


class Policy:
    """Steps of reinforcement learning."""

    def __init__(self, life: Life, held_out: HeldOut) -> None:
        """`held_out` may use some of the places for attempts while a step is under way."""
        self._life = life
        self._held_out = held_out
        self._teaches = group_signal(life.spec.algorithm, life.spec.rollout.max_response_tokens)
        self._rollouts = life.run.storage / ROLLOUTS
        self._stream: RolloutStream | None = None
        self._journal: Journal | None = None

    async def step(self) -> dict[str, float]:
        """One step; its figures. What is left of an evaluation beside it is waited for before the weights change.

        Raises NoSignalError, AgentFailsError, NoTasksError, NothingToTrainError, EngineUnfitError.
        """
        began = time.monotonic()
        state = self._life.state
        number = state.step + 1
        progress = self._life.run.progress
        progress.update(phase="rl", message=f"step {number}: attempts under way")
        rollouts = await self._collect(number)
        with_signal = sum(map(self._teaches, rollouts.groups))
        self._count_silent_steps(with_signal, rollouts.attempts)
        self._count_agentless_steps(rollouts.attempts)
        rolled = time.monotonic()
        # Strictly on-policy, nothing samples while the learner computes: engines may be asleep, or share its threads.
        waited = 0.0 if self._life.spec.rollout.max_staleness else await self._held_out.finish()
        progress.update(message=f"step {number}: training")
        training = time.monotonic()
        trained = await self._train(rollouts.groups)
        trained_at = time.monotonic()
        waited += await self._held_out.finish()
        figures = prefixed("rollout", rollout_metrics(rollouts, with_signal, rolled - began, state.weight_version))
        times = {
            "time/rollout_seconds": rolled - began,
            "time/train_seconds": trained_at - training,
            "time/evaluation_wait_seconds": waited,
            "time/idle_places_fraction": self._life.run.pool.occupancy.idle_fraction(),
        }
        return {**figures, **prefixed("train", trained), **times}

    async def close(self) -> None:
        """Cancel what is under way; a checkpoint knows it."""
        if self._stream is not None:
            await self._stream.close()
        if self._journal is not None:
            self._journal.close()

    async def _train(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """A batch of which nothing can be trained is a step without an update, but not time and again."""
        state = self._life.state
        await self._life.run.weight_sync.rest()
        learner = self._life.run.learner
        try:
            figures = await learner.train_step(groups, state.weight_version)
        except NothingToTrainError as error:
            if state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
                raise
            logger.warning("step %d trains nothing: %s", state.step + 1, error)
            return {"updates": 0.0}
        await asyncio.to_thread(write_seen, self._rollouts, step_label(state.step + 1), learner.take_seen())
        return figures

    async def _collect(self, number: int) -> StepRollouts:
        """The step's rollouts, written to a file of its own."""
        life = self._life
        steps_left = life.spec.steps - life.state.step
        stream, journal = self._under_way()
        rollouts = await life.stop.or_else(stream.collect(number, life.state.weight_version, steps_left))
        drop_seen(self._rollouts, step_label(number))
        await asyncio.to_thread(seal, self._rollouts / step_label(number), rollouts.attempts, rollouts.groups)
        journal.forget(rollouts.attempts)
        if steps_left == 1:
            await self.close()
        return rollouts

    def _under_way(self) -> tuple[RolloutStream, Journal]:
        """Made by the first step, when the state of an earlier life is taken over."""
        if self._stream is None or self._journal is None:
            life, pool = self._life, self._life.run.pool
            self._journal = Journal(self._rollouts / UNDER_WAY, life.backlog.attempts)
            tasks = {task.id: task for task in life.run.train_tasks}
            verifier = TaskVerifier(pool, life.cursor, life.state.verified)
            self._stream = RolloutStream(
                tasks,
                life.cursor,
                life.backlog,
                pool,
                stream_rules(life.spec),
                verifier=verifier if life.spec.reward.verify_tasks else None,
                on_attempt=self._attempt_ended,
                shares_places=lambda: self._held_out.is_under_way,
                engines_absent_at=lambda: life.run.weight_sync.absent_at,
            )
            pool.occupancy.idle_fraction()  # what was before does not count
        return self._stream, self._journal

    def _attempt_ended(self, attempt: Trajectory) -> None:
        assert self._journal is not None, "made with the stream"
        self._journal.write(attempt)
        self._life.run.progress.attempt_done(attempt)

    def _count_silent_steps(self, with_signal: int, attempts: Sequence[Trajectory]) -> None:
        """Where none was scored it is not the tasks that teach nothing."""
        state, algorithm = self._life.state, self._life.spec.algorithm
        state.silent_steps = 0 if with_signal else state.silent_steps + 1
        are_scored = any(not attempt.outcome.is_infrastructure for attempt in attempts)
        if algorithm.dynamic_sampling and are_scored and state.silent_steps >= MAX_STEPS_WITHOUT_SIGNAL:
            raise NoSignalError(
                f"in {state.silent_steps} steps, refills included, no group's rewards differed: "
                "choose tasks that this model sometimes solves, or set algorithm.dynamicSampling to false"
            )

    def _count_agentless_steps(self, attempts: Sequence[Trajectory]) -> None:
        """A whole run of them, where that is shorter, teaches as little."""
        state, spec = self._life.state, self._life.spec
        scored = [attempt for attempt in attempts if not attempt.outcome.is_infrastructure]
        fails = bool(scored) and all(attempt.outcome is Outcome.AGENT_ERROR for attempt in scored)
        state.agentless_steps = state.agentless_steps + 1 if fails else 0
        if state.agentless_steps >= min(MAX_STEPS_WITHOUT_SIGNAL, spec.steps):
            words = " ".join(str(scored[-1].transcript[-1]["content"]).split()) if scored[-1].transcript else "nothing"
            raise AgentFailsError(
                f"every attempt of {state.agentless_steps} steps was ended by a failure of its agent (agent_error), "
                f"not of the model: mend what agent.type {spec.agent.type} runs; the last one's last words were: "
                f"{words[-LAST_WORDS_CHARACTERS:]}"
            )
