"""HeldOut: evaluates every held-out source with the weights of the moment.

An evaluation is waited for, or goes on beside the next step until `finish`. Whoever begins one so keeps the engines'
weights as they are until then, and has a checkpoint of these weights, from which a later life can begin it again. Its
sources then take places together, since those of a later one would stand behind all attempts of the step.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.all_or_none import all_or_none
from sweyard_trainer.evaluation.figures import SourceResult
from sweyard_trainer.evaluation.source import SourceEvaluation, evaluate_source
from sweyard_trainer.metrics import prefixed
from sweyard_trainer.phases.life import Life
from sweyard_trainer.rollout.plan import derive_seed, select_eval_plans
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)


class HeldOut:
    """The held-out tasks of a run. The same seeds each time, so that evaluations differ by the weights alone."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._run = life.run
        self._beside: asyncio.Task[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether attempts of an evaluation share the places with others."""
        return self._beside is not None and not self._beside.done()

    async def evaluate_once(self, label: str, *, wanted: bool) -> None:
        """Evaluate and remember it, unless an earlier life of the run already did. Raises EngineUnfitError."""
        if wanted and self._is_due(label):
            self._run.progress.update(phase="evaluating", message=f"evaluation: {label}")
            await self._life.stop.or_else(self._evaluate(label, beside=False))

    def begin_once(self, label: str, *, wanted: bool) -> None:
        """The same beside what follows, until `finish`."""
        if wanted and self._is_due(label):
            logger.info("evaluation %s begins beside training", label)
            self._beside = asyncio.create_task(self._evaluate(label, beside=True))

    async def finish(self) -> float:
        """Wait for what was begun, where it has not ended; seconds waited. Raises as `evaluate_once` does."""
        if self._beside is None:
            return 0.0
        began = time.monotonic()
        if self.is_under_way:
            self._run.progress.update(message="waiting for the evaluation of these weights")
        await self._life.stop.or_else(self._beside)
        self._beside = None
        waited = time.monotonic() - began
        self._run.progress.advance("evaluation", 0, waited)
        return waited

    async def close(self) -> None:
        """Cancel what is under way; the next life does it again."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.gather(self._beside, return_exceptions=True)

    def _is_due(self, label: str) -> bool:
        return bool(self._run.eval_tasks) and label not in self._life.state.evaluations

    async def _evaluate(self, label: str, *, beside: bool) -> None:
        state = self._life.state
        step = state.step
        evaluate, sources = partial(self._evaluate_source, label, beside=beside), self._run.eval_tasks.items()
        if beside:
            results = await all_or_none(evaluate(name, tasks) for name, tasks in sources)
        else:
            results = [await evaluate(name, tasks) for name, tasks in sources]
        state.evaluations[label] = [result.report() for result in results]
        figures = {
            name: value
            for result in results
            for name, value in prefixed(f"eval/{result.source}", result.metrics()).items()
        }
        self._life.write_metrics("evaluation", step, figures)
        self._run.progress.evaluated({name: value for result in results for name, value in _shown(result).items()})

    async def _evaluate_source(self, label: str, name: str, tasks: Sequence[Task], *, beside: bool) -> SourceResult:
        """What goes on beside a step is told when it has ended: the report is the step's. Nor does its time count as
        the run's, but for what training waits."""
        set_aside = await self._set_aside(tasks) if self._run.spec.reward.verify_tasks else {}
        evaluation = self._run.spec.evaluation
        plans = select_eval_plans(
            f"eval-{label}-{name}",
            tasks,
            evaluation.attempts,
            temperature=evaluation.temperature,
            seed=derive_seed(self._run.spec.seed, "evaluation"),
            set_aside=set(set_aside),
        )
        work = SourceEvaluation(
            label=label,
            source=name,
            plans=plans,
            attempts_per_task=evaluation.attempts,
            verify=evaluation.verifier == "regression",
            retries=self._run.spec.rollout.infra_retries,
            run_id=self._run.run_id,
            storage=self._run.storage,
        )
        progress = self._run.progress
        if not beside:
            progress.attempts_begin(f"evaluation {label}, {name}", len(plans))
        began = time.monotonic()
        result = await evaluate_source(work, self._run.pool, _ignore if beside else progress.attempt_done)
        progress.advance("evaluation", len(plans), 0.0 if beside else time.monotonic() - began)
        return replace(result, set_aside=set_aside)

    async def _set_aside(self, tasks: Sequence[Task]) -> dict[str, str]:
        """Tasks to leave out now, and why. Only a faulty one is remembered: time and infrastructure may do better."""
        state = self._life.state
        known = state.verified | state.eval_set_aside.keys()
        unknown = [task for task in tasks if task.id not in known]
        first = await asyncio.gather(*(self._verify(task, patient=False) for task in unknown))
        unsure = {}
        for task, failure in zip(unknown, first, strict=True):
            if failure is not None and (again := await self._verify(task, patient=True)) is not None:  # alone
                unsure[task.id] = again
        causes = {**unsure, **state.eval_set_aside}
        aside = {task.id: causes[task.id] for task in tasks if task.id in causes}
        if aside:
            logger.error("%d of %d held-out tasks are set aside: %s", len(aside), len(tasks), _by_cause(aside))
        return aside

    async def _verify(self, task: Task, *, patient: bool) -> str | None:
        """Note the verdict on `task`; what kept it from being reached, or None."""
        try:
            fault = await self._run.pool.verify(task, patient=patient)
        except InfrastructureError as error:
            return f"it could not be verified: {error}"
        if fault is None:
            self._life.state.verified.add(task.id)
        else:
            self._life.state.eval_set_aside[task.id] = fault
        return None


def _ignore(attempt: Trajectory) -> None:
    """Nobody is told."""


def _shown(result: SourceResult) -> dict[str, float]:
    """For the status: pass@1 under the source's name and, of several attempts, what all of them are worth."""
    figures = result.figures
    most = max(figures.pass_at, default=1)
    shown = {result.source: figures.solved_fraction}
    if most > 1:
        shown[f"{result.source}/pass@{most}"] = figures.pass_at[most]
    if figures.best_at:
        shown[f"{result.source}/best@{max(figures.best_at)}"] = figures.best_at[max(figures.best_at)]
    return shown


def _by_cause(aside: dict[str, str]) -> str:
    return "; ".join(f"{task}: {cause}" for task, cause in aside.items())
