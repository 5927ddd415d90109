"""Which checkpoints are let go: pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Saved(NamedTuple):
    """A complete checkpoint; later ones are greater."""

    step: int
    again: int
    """How often its step had been saved before."""
    name: str


def superfluous(saved: Sequence[Saved], keep: int, best_first: Sequence[int]) -> list[Saved]:
    """All but the last `keep` steps and, beside them, the best one there is; of a step only what was saved last.

    `best_first` are evaluated steps, the best first.
    """
    newest = {checkpoint.step: checkpoint for checkpoint in sorted(saved)}
    kept = set(sorted(newest)[-keep:]) | set([step for step in best_first if step in newest][:1])
    return [
        checkpoint
        for checkpoint in sorted(saved)
        if newest[checkpoint.step] != checkpoint or checkpoint.step not in kept
    ]
