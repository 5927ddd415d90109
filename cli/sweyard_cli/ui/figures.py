"""Curves of a run, as columns: pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sweyard_cli.results.soundness import BOUNDS
from sweyard_cli.ui.attempt_index import count_outcomes, mean_turns
from sweyard_trainer.rollouts.files import step_of

EVALUATION = "evaluation"
REWARD = "rollout/reward_mean"
_SPARK_POINTS = 60
_KEYS = ("phase", "step", "time")

Rows = Sequence[Mapping[str, Any]]


def figures_of(rows: Rows, attempts: pa.Table, progress: Mapping[str, Any]) -> dict[str, Any]:
    """By phase the figures of its steps; evaluations; and by step what its attempts tell.

    A step is of the weights before it: `versions` is what there is to add to a step's number, None where it is not
    known yet. `bounds` are of curves: where each stops being sound.
    """
    named = (phase for row in rows if isinstance(phase := row.get("phase"), str))
    version = progress.get("weightVersion")
    phases = [phase for phase in dict.fromkeys(named) if phase != EVALUATION]
    return {
        "phases": {phase: columns_of([row for row in rows if row.get("phase") == phase]) for phase in phases},
        "evaluations": [evaluation_of(row) for row in rows if row.get("phase") == EVALUATION],
        "outcomes": _by_step(count_outcomes(attempts)),
        "turns": _by_step(mean_turns(attempts)),
        "bounds": {bound.figure: bound.limit for bound in BOUNDS},
        "versions": None if version is None else version - progress.get("step", 0),
    }


def columns_of(rows: Rows) -> dict[str, Any]:
    """Of rows of one phase: their steps and times, and each figure with None where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if _is_figure(name, value))
    return {
        "step": [row["step"] for row in rows],
        "time": [row.get("time") for row in rows],
        "figures": {name: [row.get(name) for row in rows] for name in names},
    }


def evaluation_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Names are eval/SOURCE/FIGURE; those of repositories are longer, and left out."""
    sources: dict[str, dict[str, float]] = {}
    for name, value in row.items():
        if name.startswith("eval/") and name.count("/") == 2:
            _, source, figure = name.split("/")
            sources.setdefault(source, {})[figure] = value
    return {"step": row["step"], "time": row.get("time"), "sources": sources}


def spark_of(rows: Rows) -> list[float]:
    """At most some points of the mean reward, the last always."""
    values = [row[REWARD] for row in rows if isinstance(row.get(REWARD), int | float)]
    every = -(-len(values) // _SPARK_POINTS) or 1
    return values[::-1][::every][::-1]


def _is_figure(name: str, value: object) -> bool:
    return name not in _KEYS and isinstance(value, int | float)


def _by_step(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Labels of evaluations are left out."""
    by_step: Iterable[tuple[int, Any]] = ((step, of) for label, of in found.items() if (step := step_of(label)))
    steps = sorted(by_step, key=lambda pair: pair[0])
    return {"step": [step for step, _ in steps], "values": [of for _, of in steps]}
