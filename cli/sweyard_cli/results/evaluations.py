"""Held-out figures of a run: how much was solved, source by source, before, between and after."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LABELS = {"untrained": "untrained", "warmed-up": "warmed up", "final": "after training"}
_STEP_PREFIX = "step-"


@dataclass(frozen=True, slots=True)
class SourceFigure:
    """One source in one evaluation."""

    source: str
    attempts: int
    solved: int
    low: float
    high: float
    """95 % Wilson interval of the solved fraction."""
    infra_failures: int = 0
    """Attempts outside of the fraction."""
    set_aside: int = 0
    """Tasks that were not attempted, as they could not be verified."""
    set_aside_cause: str = ""
    """Why the first of them was."""

    @property
    def solved_fraction(self) -> float:
        """NaN without attempts."""
        return self.solved / self.attempts if self.attempts else math.nan


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """One evaluation of all sources."""

    label: str
    """untrained, warmed-up, step-<n> or final: as in the names of the rollout files."""
    sources: tuple[SourceFigure, ...]

    @property
    def title(self) -> str:
        """Label for people."""
        if self.label.startswith(_STEP_PREFIX):
            return f"after step {self.label.removeprefix(_STEP_PREFIX)}"
        return LABELS.get(self.label, self.label)


def evaluations_of(
    summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], total_steps: int
) -> list[EvaluationFigures]:
    """All evaluations in order: from the summary of a finished run, else from what its metrics say so far."""
    if "evaluations" in summary:
        return [
            EvaluationFigures(label, tuple(map(_from_report, reports)))
            for label, reports in summary["evaluations"].items()
        ]
    return [
        EvaluationFigures(label, tuple(_from_row(row)))
        for label, row in zip(_labels_of(rows, total_steps), _evaluation_rows(rows), strict=True)
    ]


def _from_report(report: Mapping[str, Any]) -> SourceFigure:
    numbers = (int(report["attempts"]), int(report["solved"]), float(report["low"]), float(report["high"]))
    aside: Mapping[str, str] = report.get("set_aside", {})
    return SourceFigure(
        str(report["source"]),
        *numbers,
        infra_failures=int(report["infra_failures"]),
        set_aside=len(aside),
        set_aside_cause=next(iter(aside.values()), ""),
    )


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
    suffix = "/solved_fraction"
    for source in [name[len("eval/") : -len(suffix)] for name in row if name.endswith(suffix)]:
        figures = {name.rpartition("/")[2]: value for name, value in row.items() if name.startswith(f"eval/{source}/")}
        attempts = int(figures["attempts"])
        solved = round(figures["solved_fraction"] * attempts)
        failures = int(figures["infra_failures"])
        yield SourceFigure(source, attempts, solved, figures["low"], figures["high"], failures)
