"""HeldOut: evaluates every held-out source with the weights of the moment."""

import asyncio
import logging
import time
from collections.abc import Sequence

from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.evaluation import SourceResult, evaluate_source
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.parts import Run
from sweyard_trainer.rollout.plan import derive_seed, select_eval_plans

logger = logging.getLogger(__name__)


class HeldOut:
    """The held-out tasks of a run. The same seeds each time, so that evaluations differ by the weights alone."""

    def __init__(self, run: Run, state: LoopState) -> None:
        self._run = run
        self._state = state

    async def evaluate(self, label: str) -> list[SourceResult]:
        """Each source apart. Raises EngineUnfitError."""
        return [await self._evaluate_source(label, name, tasks) for name, tasks in self._run.eval_tasks.items()]

    async def _evaluate_source(self, label: str, name: str, tasks: Sequence[Task]) -> SourceResult:
        if self._run.spec.reward.verify_tasks:
            await self._set_aside_faulty(tasks)
        evaluation = self._run.spec.evaluation
        plans = select_eval_plans(
            f"eval-{label}-{name}",
            tasks,
            evaluation.attempts,
            temperature=evaluation.temperature,
            seed=derive_seed(self._run.spec.seed, "evaluation"),
            set_aside=self._state.eval_set_aside,
        )
        log = self._run.storage / "rollouts" / f"eval-{label}-{name}.jsonl"
        began = time.monotonic()
        result = await evaluate_source(name, plans, self._run.pool, log, self._run.progress.attempt_done)
        self._run.progress.advance("evaluation", len(plans), time.monotonic() - began)
        return result

    async def _set_aside_faulty(self, tasks: Sequence[Task]) -> None:
        unknown = [task for task in tasks if task.id not in self._state.verified | self._state.eval_set_aside]
        faults = await asyncio.gather(*(self._run.pool.verify(task) for task in unknown))
        for task, fault in zip(unknown, faults, strict=True):
            if fault is None:
                self._state.verified.add(task.id)
            else:
                logger.warning("held-out task %s is set aside: %s", task.id, fault)
                self._state.eval_set_aside.add(task.id)
