"""Figures as people read them."""

import math


def percent(fraction: float) -> str:
    """37.5 % of 0.375; a dash for what is no number."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:.3g} %"


def interval(low: float, high: float) -> str:
    """26 to 55 % of two fractions."""
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def duration(seconds: float) -> str:
    """1 h 02 min, 3 min 20 s, 12 s, 0.35 s."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def plural(count: int, noun: str) -> str:
    """1 step, 2 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
