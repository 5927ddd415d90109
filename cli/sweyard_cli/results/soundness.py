"""Figures of a run's last step that are out of bounds, in a sentence each: pure.

The bounds are rules of thumb of ours, and no measurements; docs/gpu-run.md has them as a table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sweyard_cli.figures import percent

Row = Mapping[str, Any]
_ENGINE_KL = "train/engine_kl"
_FRESH_ENGINE_KL = "train/fresh_engine_kl"
_WITH_SIGNAL = "rollout/groups_with_signal"
_GROUPS = "rollout/groups"
_GROUPS_DROPPED = "rollout/groups_dropped"


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a figure may go."""

    figure: str
    """Its name in metrics.jsonl, after which the page knows the curve."""
    name: str
    limit: float
    remedy: str
    is_least: bool = False
    """`limit` is the least that is sound, and not the most."""
    value_of: Callable[[Row], float | None] | None = None
    """Of a row; by default what it has under `figure`."""
    format: Callable[[float], str] = percent

    def value(self, row: Row) -> float | None:
        """None where the row does not tell."""
        return self.value_of(row) if self.value_of else _number(row, self.figure)

    def is_kept(self, value: float) -> bool:
        """What is no number keeps none."""
        return value >= self.limit if self.is_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure that is out of its bound."""

    figure: str
    told: str
    """What is so, and since when."""
    remedy: str


def _number(row: Row, figure: str) -> float | None:
    value = row.get(figure)
    return value if isinstance(value, int | float) else None


def _engine_kl(row: Row) -> float | None:
    """With stale tokens that of the fresh ones alone: age moves the others apart, and is meant to."""
    return _number(row, _FRESH_ENGINE_KL if _FRESH_ENGINE_KL in row else _ENGINE_KL)


def _share_with_signal(row: Row) -> float | None:
    """Of the groups that were there to train on, or would have been but for their rewards."""
    with_signal, trained, dropped = (_number(row, name) for name in (_WITH_SIGNAL, _GROUPS, _GROUPS_DROPPED))
    if with_signal is None or trained is None or dropped is None or not trained + dropped:
        return None
    return with_signal / (trained + dropped)


BOUNDS = (
    Bound(
        _ENGINE_KL,
        "KL between engine and trainer",
        0.01,
        "They disagree on the same tokens: precision, chat template or stale weights",
        value_of=_engine_kl,
        format=lambda value: f"{value:.2g}",
    ),
    Bound(
        "rollout/infra_failure_fraction",
        "Attempts lost to infrastructure",
        0.05,
        "Sandboxes or images fail: the page's wave of that step has the reasons",
    ),
    Bound(
        _WITH_SIGNAL,
        "Groups with signal",
        0.2,
        "In all others every attempt earned the same: tasks are too hard or too easy",
        is_least=True,
        value_of=_share_with_signal,
    ),
    Bound("train/clip_fraction", "Clip fraction", 0.2, "Steps are too large: lower optimizer.learningRate"),
    Bound(
        "rollout/truncated_fraction",
        "Attempts out of tokens",
        0.3,
        "Replies or outputs do not fit: raise rollout.maxResponseTokens or maxTokensPerTurn",
    ),
)


def findings_of(rows: Sequence[Row]) -> list[Finding]:
    """Of the rows of metrics.jsonl, those of training steps among them."""
    return [found for bound in BOUNDS if (found := _finding(bound, rows))]


def _finding(bound: Bound, rows: Sequence[Row]) -> Finding | None:
    steps = (row for row in reversed(rows) if row.get("phase") == "rl")  # the newest first: no need to look at all
    told = ((row["step"], value) for row in steps if (value := bound.value(row)) is not None)
    outside = list(takewhile(lambda each: not bound.is_kept(each[1]), told))
    if not outside:
        return None
    (last, value), (first, _) = outside[0], outside[-1]
    side = "below" if bound.is_least else "above"
    since = f"since step {first}" if first != last else f"in step {last}"
    return Finding(
        bound.figure,
        f"{bound.name} {bound.format(value)}, {side} {bound.format(bound.limit)} {since}",
        bound.remedy,
    )
