"""Groups: attempts at one task that were begun together, and what a step has of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sweyard_trainer.trajectory import Trajectory


class Drop(StrEnum):
    """Why a group is not trained."""

    NO_SIGNAL = "no_signal"
    """It teaches nothing, and another was begun in its place."""
    LATE = "late"
    """None of its attempts had ended when its last chance was over."""
    STALE = "stale"
    """Batches were full of groups as old until it was too old."""


@dataclass(slots=True, eq=False)
class Group:
    """Attempts at one task, begun together."""

    number: int
    """Order in which groups were begun, over the whole run."""
    step: int
    """Step under way when it was begun."""
    repeat: int
    """How often its task had been begun in that step before."""
    task_id: str
    version: int
    """Weights when it was begun."""
    ended: dict[int, Trajectory] = field(default_factory=dict)
    """By index in the group."""
    num_cut: int = 0
    """Attempts that ended because nobody waits for them any more."""

    @property
    def attempts(self) -> list[Trajectory]:
        """Those that ended, in the order of the group."""
        return [self.ended[index] for index in sorted(self.ended)]

    def encoded(self) -> dict[str, Any]:
        """JSON-able; attempts are named in it."""
        fields = {name: getattr(self, name) for name in Group.__slots__}
        return fields | {"ended": {str(index): attempt.attempt_id for index, attempt in self.ended.items()}}

    @classmethod
    def decoded(cls, data: dict[str, Any], attempts: Mapping[str, Trajectory]) -> "Group":
        """Inverse of `encoded`; `attempts` by their id."""
        ended = {int(index): attempts[attempt_id] for index, attempt_id in data["ended"].items()}
        return cls(**{**data, "ended": ended})


@dataclass(slots=True)
class StepRollouts:
    """What one step has to train on, and what was dropped since the step before."""

    groups: list[list[Trajectory]] = field(default_factory=list)
    """To train on, in the order in which they were begun."""
    dropped: list[list[Trajectory]] = field(default_factory=list)
    """For whatever reason; of groups that were cut short only what had ended."""
    drops: dict[int, Drop] = field(default_factory=dict)
    """Why, by the number of the group."""
    staleness: list[int] = field(default_factory=list)
    """Of each group to train on: weight versions since it was begun."""
    num_stragglers: int = 0
    """Attempts that were cut at a deadline."""

    @property
    def attempts(self) -> list[Trajectory]:
        """All of them, dropped groups too."""
        return [attempt for group in (*self.groups, *self.dropped) for attempt in group]

    def num_dropped(self, *reasons: Drop) -> int:
        """Groups dropped for one of `reasons`."""
        return sum(reason in reasons for reason in self.drops.values())
