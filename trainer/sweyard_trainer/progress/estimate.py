"""Share done and time left, from the phases of a run: pure."""

from collections.abc import Mapping
from dataclasses import dataclass

PRIOR_SECONDS = {"warmup": 0.3, "evaluation": 0.5, "step": 10.0}
"""Guess for one unit of each phase (a warm-up step, an attempt, a step) before one has been measured. They set how
the bar moves at first; the time left is not told before steps have been measured."""


@dataclass(slots=True)
class Phase:
    """Units of one kind of work."""

    total: int
    done: int = 0
    seconds: float = 0.0
    """Spent on the units done."""


def percentage(phases: Mapping[str, Phase]) -> int:
    """Share of the expected time that is done, 0 to 100; 100 only when nothing is left."""
    expected = sum(phase.total * _unit_seconds(name, phase) for name, phase in phases.items())
    done = sum(min(phase.done, phase.total) * _unit_seconds(name, phase) for name, phase in phases.items())
    if all(phase.done >= phase.total for phase in phases.values()):
        return 100
    return min(99, int(100 * done / expected))


def remaining_seconds(phases: Mapping[str, Phase]) -> int | None:
    """Time left at the measured pace; None while the pace of what takes longest is unknown."""
    left = {name: max(0, phase.total - phase.done) for name, phase in phases.items()}
    main = max(left, key=lambda name: left[name] * _unit_seconds(name, phases[name]))
    if left[main] and not phases[main].done:
        return None
    return round(sum(count * _unit_seconds(name, phases[name]) for name, count in left.items()))


def _unit_seconds(name: str, phase: Phase) -> float:
    return max(phase.seconds / phase.done, 1e-3) if phase.done else PRIOR_SECONDS[name]
