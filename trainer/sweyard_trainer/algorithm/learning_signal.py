"""Whether a group can teach anything: its rewards must differ."""

from collections.abc import Sequence

TOLERANCE = 1e-6
"""Rewards closer than this are equal: means of equal floats are not always exactly equal to them."""


def has_signal(rewards: Sequence[float]) -> bool:
    """True if the rewards of one group (infrastructure outcomes left out) are not all equal.

    Looked at over the whole group, never at an attempt's peers: a single loser among winners is signal.
    """
    return bool(rewards) and max(rewards) - min(rewards) > TOLERANCE
