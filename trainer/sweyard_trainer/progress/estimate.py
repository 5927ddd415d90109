"""Share done and time left, from the phases of a run: pure."""

from collections.abc import Mapping
from dataclasses import dataclass

MEASURED_UNITS = 3
"""From so many on, what they took tells something."""
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
    first_seconds: float = 0.0
    """Of these, on the first unit where it was measured alone: it also pays for what is made once."""


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
    if left[main] and phases[main].done < MEASURED_UNITS:
        return None
    return round(sum(count * _unit_seconds(name, phases[name]) for name, count in left.items()))


def _unit_seconds(name: str, phase: Phase) -> float:
    if not phase.done:
        return PRIOR_SECONDS[name]
    first = 1 if phase.first_seconds and phase.done > 1 else 0
    return max((phase.seconds - first * phase.first_seconds) / (phase.done - first), 1e-3)
