"""Prometheus histograms of a process, as its /metrics tells them."""

import math
import re

Buckets = dict[float, float]
"""How many values are at most so large, in ascending order."""


def read_buckets(metrics: str, name: str, kind: str) -> Buckets:
    """Of a histogram with no label but `kind`."""
    pattern = re.compile(rf'^{name}_bucket{{kind="{kind}",le="([^"]+)"}} (\S+)$', re.MULTILINE)
    return {float(bound): float(count) for bound, count in pattern.findall(metrics)}


def p99(after: Buckets, before: Buckets | None = None) -> float:
    """The upper bound of the bucket that holds the 99th percentile of what came after `before`."""
    counts = {bound: count - (before or {}).get(bound, 0.0) for bound, count in after.items()}
    return next(bound for bound, count in counts.items() if count >= 0.99 * counts[math.inf])
