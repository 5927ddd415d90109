"""What each outcome of an attempt may do to the learning.

train: its reward is in the group's baseline and its tokens are in the loss. mask: its reward is in the baseline, its
tokens are not (compact filtering, together.ai/blog/deepswe). drop: it is in neither, as though never sampled.
Infrastructure outcomes are always dropped; the config says which of the others are masked or dropped.
"""

from collections.abc import Collection
from enum import StrEnum

from sweyard_sandbox.outcome import Outcome


class Treatment(StrEnum):
    """See the module."""

    TRAIN = "train"
    MASK = "mask"
    DROP = "drop"


def treatment(outcome: Outcome, mask_outcomes: Collection[str], drop_outcomes: Collection[str]) -> Treatment:
    """Of an attempt that ended like this."""
    if outcome.is_infrastructure or outcome.value in drop_outcomes:
        return Treatment.DROP
    return Treatment.MASK if outcome.value in mask_outcomes else Treatment.TRAIN
