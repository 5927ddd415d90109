"""Figures of one evaluation, from its attempts. Pure; infrastructure failures are outside of every fraction."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.evaluation.intervals import effective_trials, wilson_interval
from sweyard_trainer.evaluation.pass_at_k import best_at_k, pass_at_k, reported_ks
from sweyard_trainer.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class TaskAttempts:
    """The graded attempts at one task."""

    repository: str
    solved: tuple[bool, ...]
    official: int
    """Solved ones by the data set's own rule."""
    infra_failures: int = 0
    scores: tuple[float, ...] | None = None
    """What the verifier gave each of `solved`; None where it gave no verdict."""

    @property
    def solved_fraction(self) -> float:
        """Of a task with attempts."""
        return sum(self.solved) / len(self.solved)


@dataclass(frozen=True, slots=True)
class Figures:
    """What attempts at some tasks came to. Tasks count alike, however many of their attempts were graded."""

    tasks: int
    """Those with a graded attempt."""
    attempts: int
    """Graded ones."""
    solved: int
    official: int
    infra_failures: int
    solved_fraction: float
    """pass@1; 0 if there is no attempt."""
    low: float
    high: float
    """95 % interval of it: Wilson's, on the effective number of attempts."""
    pass_at: dict[int, float] = field(default_factory=dict)
    """Over the tasks with at least k graded attempts."""
    best_at: dict[int, float] = field(default_factory=dict)
    """Over those of them that the verifier judged; empty without any."""

    def metrics(self) -> dict[str, float]:
        """Under their stable names."""
        return {
            "solved_fraction": self.solved_fraction,
            "low": self.low,
            "high": self.high,
            "official_fraction": self.official / self.attempts if self.attempts else 0.0,
            "attempts": float(self.attempts),
            "infra_failures": float(self.infra_failures),
            **{f"pass@{k}": value for k, value in self.pass_at.items()},
            **{f"best@{k}": value for k, value in self.best_at.items()},
        }

    def report(self) -> dict[str, Any]:
        """JSON-able, for the summary."""
        counts = {"tasks": self.tasks, "attempts": self.attempts, "solved": self.solved, "official": self.official}
        return {**self.metrics(), **counts, "infra_failures": self.infra_failures}


@dataclass(frozen=True, slots=True)
class SourceResult:
    """One source in one evaluation."""

    source: str
    figures: Figures
    repositories: Mapping[str, Figures]
    unverified: str = ""
    """Why tasks have no best@k, where some lack it."""
    set_aside: dict[str, str] = field(default_factory=dict)
    """Tasks left out of this evaluation, and why."""
    weight_versions: tuple[int, ...] = ()
    """Of all tokens that were sampled, as the engines named them: one, if it is an evaluation of one policy."""

    def metrics(self) -> dict[str, float]:
        """Under their stable names, those of each repository below its own."""
        of_repositories = {
            f"repository/{repository}/{name}": value
            for repository, figures in self.repositories.items()
            for name, value in (("solved_fraction", figures.solved_fraction), ("attempts", float(figures.attempts)))
        }
        return {**self.figures.metrics(), "set_aside": float(len(self.set_aside)), **of_repositories}

    def report(self) -> dict[str, Any]:
        """JSON-able, for the summary."""
        return {
            "source": self.source,
            **self.figures.report(),
            "repositories": {name: figures.report() for name, figures in self.repositories.items()},
            "unverified": self.unverified,
            "set_aside": self.set_aside,
            "weight_versions": list(self.weight_versions),
        }


def figures_of(tasks: Sequence[TaskAttempts], num_attempts: int) -> Figures:
    """Of the tasks of one source, or of one repository in it; `num_attempts` is how many each was to have."""
    graded = [task for task in tasks if task.solved]
    shares = [task.solved_fraction for task in graded]
    attempts = sum(len(task.solved) for task in graded)
    low, high = wilson_interval(_mean(shares), effective_trials(shares, attempts))
    return Figures(
        tasks=len(graded),
        attempts=attempts,
        solved=sum(sum(task.solved) for task in graded),
        official=sum(task.official for task in graded),
        infra_failures=sum(task.infra_failures for task in tasks),
        solved_fraction=_mean(shares),
        low=low,
        high=high,
        pass_at=_pass_at(graded, num_attempts),
        best_at=_best_at(graded, num_attempts),
    )


def summarise(source: str, tasks: Sequence[TaskAttempts], num_attempts: int, unverified: str = "") -> SourceResult:
    """All figures of a source."""
    by_repository: dict[str, list[TaskAttempts]] = defaultdict(list)
    for task in tasks:
        by_repository[task.repository].append(task)
    repositories = {name: figures_of(by_repository[name], num_attempts) for name in sorted(by_repository)}
    return SourceResult(source, figures_of(tasks, num_attempts), repositories, unverified)


def task_attempts(repository: str, attempts: Sequence[Trajectory], scores: Mapping[str, float]) -> TaskAttempts:
    """The attempts at one task, counted. `scores` are the verifier's, by attempt id; where one lacks, none counts."""
    graded = [attempt for attempt in attempts if not attempt.outcome.is_infrastructure]
    given = [scores[attempt.attempt_id] for attempt in graded if attempt.attempt_id in scores]
    return TaskAttempts(
        repository=repository,
        solved=tuple(attempt.outcome is Outcome.SOLVED for attempt in graded),
        official=sum(bool(attempt.official) for attempt in graded),
        infra_failures=len(attempts) - len(graded),
        scores=tuple(given) if len(given) == len(graded) else None,
    )


def sampled_versions(attempts: Sequence[Trajectory]) -> tuple[int, ...]:
    """Weight versions that sampled any of their tokens, in order."""
    sampled = [segment.weight_versions[segment.loss_mask] for attempt in attempts for segment in attempt.segments]
    return tuple(map(int, np.unique(np.concatenate(sampled)))) if sampled else ()


def _pass_at(tasks: Sequence[TaskAttempts], num_attempts: int) -> dict[int, float]:
    enough = {k: [task for task in tasks if len(task.solved) >= k] for k in reported_ks(num_attempts)}
    return {
        k: _mean([pass_at_k(len(task.solved), sum(task.solved), k) for task in of_k])
        for k, of_k in enough.items()
        if of_k
    }


def _best_at(tasks: Sequence[TaskAttempts], num_attempts: int) -> dict[int, float]:
    judged = [(task.scores, task.solved) for task in tasks if task.scores is not None]
    enough = {k: [pair for pair in judged if len(pair[0]) >= k] for k in reported_ks(num_attempts) if k > 1}
    return {k: _mean([best_at_k(*pair, k) for pair in of_k]) for k, of_k in enough.items() if of_k}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
