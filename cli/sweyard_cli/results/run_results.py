"""RunResults: what one run's directory says, without its attempts' text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import LOCK_FILE
from sweyard_cli.results.attempts import AttemptKey, evenly, index_attempts, step_files
from sweyard_cli.results.evaluations import EvaluationFigures, evaluations_of
from sweyard_cli.results.files import CONFIG_FILE, iterate_steps, read_config, read_report, read_summary
from sweyard_trainer.rollouts.files import ROLLOUTS, evaluation_label, find_files

MAX_STEPS_READ = 60
"""Rollout files may be gigabytes: of a longer run, so many steps are read, evenly, the first and the last always."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """Figures of a run, finished or not."""

    name: str
    directory: Path
    config: Mapping[str, Any]
    """The resolved config; empty if it is not there (a cluster keeps it in a ConfigMap)."""
    progress: Mapping[str, Any]
    """progress.json."""
    summary: Mapping[str, Any]
    """summary.json; empty before the end."""
    rows: Sequence[Mapping[str, Any]]
    """metrics.jsonl."""
    evaluations: Sequence[EvaluationFigures]
    steps: Mapping[int, Sequence[AttemptKey]]
    """Attempts of the steps that were read."""
    held_out: Mapping[tuple[str, str], Sequence[AttemptKey]]
    """Attempts by (label, source) of evaluations."""

    @property
    def is_local(self) -> bool:
        """It ran without a cluster, where each run's directory is locked."""
        return (self.directory / LOCK_FILE).exists()

    @property
    def trains(self) -> bool:
        """It does not only evaluate."""
        return _mode(self.summary, self.config) != "eval"

    @property
    def is_finished(self) -> bool:
        """The run wrote its last figures."""
        return bool(self.summary)

    def outcomes(self) -> dict[int, Counter[str]]:
        """How attempts ended, by step."""
        return {step: Counter(key.outcome for key in keys) for step, keys in self.steps.items() if keys}

    def series(self, name: str, phase: str | None = None) -> list[tuple[float, float]]:
        """(step, value) of one figure, where it was measured; values may be NaN."""
        return [
            (float(row["step"]), float(row[name]))
            for row in self.rows
            if isinstance(row.get(name), int | float) and (phase is None or row.get("phase") == phase)
        ]


def read_results(directory: Path) -> RunResults:
    """Raises UserError for what is no run's directory, and for files in it that cannot be a run's."""
    metrics, rollouts = directory / "metrics" / "metrics.jsonl", directory / ROLLOUTS
    if not any(path.exists() for path in (metrics, rollouts, directory / "progress.json")):
        raise UserError(f"{directory} holds no run: no metrics, rollouts or progress.json in it")
    progress, summary = read_report(directory / "progress.json"), read_summary(directory / "summary.json")
    rows = list(iterate_steps(metrics))
    config = read_config(directory / CONFIG_FILE)
    evaluations = _read_evaluations(directory, summary, rows, int(progress.get("totalSteps", -1)), config)
    files = find_files(rollouts)
    steps = step_files(files)
    return RunResults(
        name=str(summary.get("run") or directory.resolve().name),
        directory=directory,
        config=config,
        progress=progress,
        summary=summary,
        rows=rows,
        evaluations=evaluations,
        steps={step: list(index_attempts(steps[step])) for step in evenly(list(steps), MAX_STEPS_READ)},
        held_out=_read_held_out(files, evaluations),
    )


def _read_evaluations(
    directory: Path,
    summary: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    total_steps: int,
    config: Mapping[str, Any],
) -> Sequence[EvaluationFigures]:
    try:
        return evaluations_of(summary, rows, total_steps, trains=_mode(summary, config) != "eval")
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        path = directory / ("summary.json" if "evaluations" in summary else "metrics/metrics.jsonl")
        raise UserError(f"{path} holds no figures of an evaluation: it is damaged, or another program's") from error


def _mode(summary: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    return summary.get("mode") or config.get("mode")


def _read_held_out(
    files: Mapping[str, Path], evaluations: Sequence[EvaluationFigures]
) -> dict[tuple[str, str], Sequence[AttemptKey]]:
    """Before the first and after the last evaluation is what readers compare; those between are left alone."""
    found: dict[tuple[str, str], Sequence[AttemptKey]] = {}
    for evaluation in [*evaluations[:2], *evaluations[2:][-1:]]:
        for figure in evaluation.sources:
            label = evaluation_label(evaluation.label, figure.source)
            if label in files:
                found[evaluation.label, figure.source] = list(index_attempts(files[label]))
    return found
