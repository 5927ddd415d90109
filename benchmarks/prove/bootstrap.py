"""Paired bootstrap of a difference in solved fractions: tasks are resampled, each with all its attempts of both sides.

Efron and Tibshirani, An Introduction to the Bootstrap (1993), percentile interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two solved fractions, with its 95 % interval."""

    before: float
    after: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        return self.after - self.before


def paired_difference(before: Sequence[float], after: Sequence[float], seed: int) -> Difference:
    """`before[i]` and `after[i]` are the solved fractions of the same task; of equal length, at least one."""
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    gains = second - first
    drawn = np.random.default_rng(seed).integers(0, len(gains), size=(RESAMPLES, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
    return Difference(float(first.mean()), float(second.mean()), float(low), float(high))
