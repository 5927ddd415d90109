"""Percentiles and the one JSON line that a benchmark ends with."""

import json
import math
from collections.abc import Sequence
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` (0 to 1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarize_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and tails in milliseconds."""
    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(1e3 * percentile(seconds, share), 2) for name, share in shares.items()}


def print_figures(figures: dict[str, Any]) -> None:
    """The last line of a benchmark."""
    print(json.dumps(figures), flush=True)
