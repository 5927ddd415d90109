"""One source evaluated: its attempts run, verified, counted, and written as predictions."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.evaluation.figures import SourceResult, sampled_versions, summarise, task_attempts
from sweyard_trainer.evaluation.predictions import prediction_files, write_predictions
from sweyard_trainer.evaluation.verifier import verifier_scores
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollouts.files import ROLLOUTS, evaluation_label
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class SourceEvaluation:
    """What is to be done, and where it is written."""

    label: str
    source: str
    plans: Sequence[AttemptPlan]
    attempts_per_task: int
    verify: bool
    """Let a verifier choose among the attempts at a task, where there are several."""
    retries: int
    """Of the verifier after an infrastructure failure."""
    run_id: str
    storage: Path

    @property
    def name(self) -> str:
        """In names of files."""
        return f"{self.label}-{self.source}"

    @property
    def tasks(self) -> list[Task]:
        """Each once, in order."""
        return list({plan.task.id: plan.task for plan in self.plans}.values())


async def evaluate_source(
    evaluation: SourceEvaluation, pool: WorkerPool, on_attempt: Callable[[Trajectory], None]
) -> SourceResult:
    """Run all attempts of one source. Raises EngineUnfitError."""
    attempts = await _run_attempts(evaluation, pool, on_attempt)
    scores: dict[str, float] = {}
    unverified: dict[str, str] = {}
    if evaluation.verify and evaluation.attempts_per_task > 1:
        scores, unverified = await verifier_scores(evaluation.tasks, attempts, pool, evaluation.retries)
    model = f"{evaluation.run_id}-{evaluation.label}"
    predictions = evaluation.storage / "predictions"
    write_predictions(predictions, prediction_files(evaluation.name, model, attempts, scores))
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for attempt in attempts:
        by_task[attempt.task_id].append(attempt)
    counted = [task_attempts(task.repository, by_task[task.id], scores) for task in evaluation.tasks]
    result = summarise(evaluation.source, counted, evaluation.attempts_per_task, _by_reason(unverified))
    return replace(result, weight_versions=sampled_versions(attempts))


async def _run_attempts(
    evaluation: SourceEvaluation, pool: WorkerPool, on_attempt: Callable[[Trajectory], None]
) -> list[Trajectory]:
    """All of them, in the order they ended."""
    await pool.announce(evaluation.plans)
    attempts: list[Trajectory] = []
    tasks = [asyncio.create_task(pool.run(plan)) for plan in evaluation.plans]
    place = evaluation.storage / ROLLOUTS / evaluation_label(evaluation.label, evaluation.source)
    journal = Journal(place)
    try:
        for finished in asyncio.as_completed(tasks):
            attempt = await finished
            journal.write(attempt)
            attempts.append(attempt)
            on_attempt(attempt)
        await asyncio.to_thread(seal, place, attempts)
        journal.forget(attempts)
    finally:
        journal.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return attempts


def _by_reason(unverified: Mapping[str, str]) -> str:
    """`3 tasks: why; 1 task: why`."""
    counts = Counter(unverified.values())
    return "; ".join(f"{count} task{'' if count == 1 else 's'}: {reason}" for reason, count in counts.items())
