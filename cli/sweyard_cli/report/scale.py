"""Axes: round ticks over the values that are there."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_ROUND = (1.0, 2.0, 5.0, 10.0)
_SMALLEST_SPAN = 1e-9
"""Relative; values that are closer are drawn as one."""
_LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from values to pixels."""

    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""

    def __call__(self, value: float) -> float:
        """Pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most about `most` multiples of a round number that enclose low to high."""
    if high - low < _SMALLEST_SPAN * max(abs(low), abs(high), _SMALLEST_SPAN):
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _ROUND if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def is_drawable(value: float) -> bool:
    """Neither NaN nor infinite, nor so large that a range of such values is."""
    return abs(value) <= _LARGEST


def finite(values: Iterable[float]) -> list[float]:
    """Those that can be drawn."""
    return [value for value in values if is_drawable(value)]


def moving_mean(values: list[tuple[float, float]], window: int) -> list[tuple[float, float]]:
    """Mean of each value and up to `window - 1` before it, of those that are finite."""
    smoothed = []
    for index, (step, _) in enumerate(values):
        recent = finite(value for _, value in values[max(0, index - window + 1) : index + 1])
        if recent:
            smoothed.append((step, sum(recent) / len(recent)))
    return smoothed
