"""What of a run's volume is fetched, by the names under which one asks for it."""

from collections.abc import Iterable
from enum import StrEnum

ALWAYS = ("summary.json", "progress.json", "metrics", "rollouts", "predictions")
"""Figures and attempts: all that reports and the page read."""


class Part(StrEnum):
    """What is large, and asked for."""

    WEIGHTS = "weights"
    CHECKPOINTS = "checkpoints"
    MODEL = "model"


_NEEDS = {Part.WEIGHTS: (Part.MODEL,), Part.CHECKPOINTS: (Part.MODEL,)}
"""The tokenizer of both lies with the initial model."""


def places(asked: Iterable[Part]) -> tuple[str, ...]:
    """Files and folders of the volume."""
    parts = [part for each in asked for part in (each, *_NEEDS.get(each, ()))]
    return tuple(dict.fromkeys([*ALWAYS, *parts]))
