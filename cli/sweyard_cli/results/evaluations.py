"""Held-out figures of a run: how much was solved, source by source, before, between and after."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

WITHOUT_TRAINING = "this model"
LABELS = {"untrained": "untrained", "warmed-up": "warmed up", "final": "after training"}
_STEP_PREFIX = "step-"
_ROUNDING = 1e-9


class _Counted(BaseModel):
    """What is counted on of a source's figures, beside pass@k and best@k."""

    model_config = ConfigDict(frozen=True, strict=True)

    attempts: float
    solved_fraction: float
    low: float
    high: float
    solved: float | None = None
    """None in rows of metrics."""
    infra_failures: float = 0.0
    """Not every version has told it."""

    @model_validator(mode="after")
    def _lies_in_its_interval(self) -> Self:
        ends = (0.0, self.low, self.solved_fraction, self.high, 1.0)
        if self.attempts and not all(left <= right + _ROUNDING for left, right in pairwise(ends)):
            raise ValueError("this is no share with its interval")
        return self


@dataclass(frozen=True, slots=True)
class SourceFigure:
    """One source in one evaluation."""

    source: str
    attempts: int
    solved: int
    low: float
    high: float
    """95 % interval of the solved fraction: Wilson's, on the effective number of attempts."""
    solved_fraction: float = math.nan
    """pass@1: tasks count alike. NaN without attempts."""
    of_several: tuple[tuple[str, float], ...] = ()
    """pass@k and best@k, by name, of more than one attempt at a task."""
    unverified: str = ""
    """Why tasks have no best@k, where some lack it."""
    repositories: tuple["SourceFigure", ...] = ()
    """The same by repository."""
    infra_failures: int = 0
    """Attempts outside of the fraction."""
    set_aside: int = 0
    """Tasks that were not attempted, as they could not be verified."""
    set_aside_cause: str = ""
    """Why the first of them was."""


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """One evaluation of all sources."""

    label: str
    """untrained, warmed-up, step-<n> or final: as in the names of the rollout files."""
    sources: tuple[SourceFigure, ...]
    trains: bool = True
    """Of a run that does not only evaluate."""

    @property
    def title(self) -> str:
        """Label for people."""
        if self.label.startswith(_STEP_PREFIX):
            return f"after step {self.label.removeprefix(_STEP_PREFIX)}"
        if self.label == "final" and not self.trains:
            return WITHOUT_TRAINING
        return LABELS.get(self.label, self.label)

    @property
    def by_repository(self) -> list[tuple[str, SourceFigure]]:
        """(source, figures of one repository), of the sources that have several."""
        return [
            (source.source, figure)
            for source in self.sources
            if len(source.repositories) > 1
            for figure in source.repositories
        ]


def evaluations_of(
    summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], total_steps: int, *, trains: bool
) -> list[EvaluationFigures]:
    """All evaluations in order: from the summary of a finished run, else from what its metrics say so far."""
    if "evaluations" in summary:
        return [
            EvaluationFigures(label, tuple(map(_from_report, reports)), trains)
            for label, reports in summary["evaluations"].items()
        ]
    return [
        EvaluationFigures(label, tuple(_from_row(row)), trains)
        for label, row in zip(_labels_of(rows, total_steps), _evaluation_rows(rows), strict=True)
    ]


def _from_report(report: Mapping[str, Any]) -> SourceFigure:
    aside: Mapping[str, str] = report.get("set_aside", {})
    repositories: Mapping[str, Mapping[str, Any]] = report.get("repositories", {})
    return SourceFigure(
        **_numbers(str(report["source"]), report),
        set_aside=len(aside),
        set_aside_cause=next(iter(aside.values()), ""),
        unverified=str(report.get("unverified", "")),
        repositories=tuple(SourceFigure(**_numbers(name, figures)) for name, figures in repositories.items()),
    )


def _numbers(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    counted = _Counted.model_validate(figures)
    solved = counted.solved_fraction * counted.attempts if counted.solved is None else counted.solved
    several = [key for key in figures if key.startswith(("pass@", "best@")) and key != "pass@1"]
    return {
        "source": name,
        "attempts": int(counted.attempts),
        "solved": round(solved) if counted.attempts else 0,
        "low": counted.low,
        "high": counted.high,
        "solved_fraction": counted.solved_fraction if counted.attempts else math.nan,
        "of_several": tuple((key, float(figures[key])) for key in several),
        "infra_failures": int(counted.infra_failures),
    }


def _evaluation_rows(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("phase") == "evaluation"]


def _labels_of(rows: Sequence[Mapping[str, Any]], total_steps: int) -> Iterator[str]:
    """The metrics know an evaluation by its step alone: what came before it says which one it is."""
    warmed = False
    for row in rows:
        warmed |= row.get("phase") == "warmup"
        if row.get("phase") != "evaluation":
            continue
        if row["step"] == total_steps:
            yield "final"
        elif row["step"]:
            yield f"{_STEP_PREFIX}{row['step']}"
        else:
            yield "warmed-up" if warmed else "untrained"


def _from_row(row: Mapping[str, Any]) -> Iterator[SourceFigure]:
    """Names are eval/SOURCE/FIGURE; those of repositories are longer, and left to the summary."""
    sources: dict[str, dict[str, float]] = {}
    for name, value in row.items():
        if name.startswith("eval/") and name.count("/") == 2:
            _, source, figure = name.split("/")
            sources.setdefault(source, {})[figure] = value
    for source, figures in sources.items():
        yield SourceFigure(**_numbers(source, figures))
