"""Faults that fade: which nodes to avoid, and how long to wait before an image is tried again."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

HALF_LIFE_SECONDS = 300.0
_FORGOTTEN = 0.05
_MAX_HOLD_SECONDS = 300.0

Subject = TypeVar("Subject", bound=Hashable)


@dataclass(slots=True)
class FaultLedger(Generic[Subject]):
    """A score per subject: one a fault, halved every five minutes. `now` is monotonic seconds."""

    _scores: dict[Subject, tuple[float, float]] = field(default_factory=dict)

    def record(self, subject: Subject, now: float) -> None:
        """One more fault."""
        self._scores[subject] = (self.score(subject, now) + 1.0, now)

    def score(self, subject: Subject, now: float) -> float:
        """Faults, weighted by how recent they are."""
        score, since = self._scores.get(subject, (0.0, now))
        halvings: float = (now - since) / HALF_LIFE_SECONDS
        return score * math.pow(2.0, -halvings)

    def at_least(self, threshold: float, now: float) -> tuple[Subject, ...]:
        """Subjects with this score or more; those that faded away are forgotten."""
        for subject in [subject for subject in self._scores if self.score(subject, now) < _FORGOTTEN]:
            del self._scores[subject]
        return tuple(subject for subject in self._scores if self.score(subject, now) >= threshold)

    def held_seconds(self, subject: Subject, now: float) -> float:
        """How long to wait before the next try: 1, 2, 4, ... seconds after the last fault."""
        if subject not in self._scores:
            return 0.0
        score, since = self._scores[subject]
        return max(0.0, since + min(math.pow(2.0, score - 1.0), _MAX_HOLD_SECONDS) - now)

    def record_round(self, subject: Subject, now: float) -> None:
        """One more fault, unless it belongs to a round of tries that was recorded already."""
        if self.held_seconds(subject, now) == 0.0:
            self.record(subject, now)
