"""How many engines the attempts under way call for. Pure: load and time come in, a number goes out.

Invariants (tests/trainer/weight_sync/test_scaling.py): never outside of the bounds; more at once when the load calls
for more; fewer only when no load of the last `scaleDownAfterSeconds` called for as many.
"""

import math
from dataclasses import dataclass

from sweyard_api.inference import EngineScaling


@dataclass(frozen=True, slots=True)
class Need:
    """Engines that were called for at one moment, in seconds."""

    at: float
    engines: int


@dataclass(frozen=True, slots=True)
class EngineCount:
    """What was called for lately: the most of it is how many there are to be."""

    scaling: EngineScaling
    most: int
    needs: tuple[Need, ...]

    @classmethod
    def beginning(cls, scaling: EngineScaling, *, most: int, serving: int, now: float) -> "EngineCount":
        """Those that serve are taken for needed, until they prove not to be."""
        return cls(scaling, most, (Need(now, serving),))

    @property
    def engines(self) -> int:
        """How many there are to be."""
        needed = max(need.engines for need in self.needs)
        return min(max(needed, self.scaling.min_replicas), self.most)

    def heard(self, attempts: int, now: float) -> "EngineCount":
        """With the load of this moment. A need is forgotten when it is old, or when a later one is as great."""
        need = Need(now, math.ceil(attempts / self.scaling.attempts_per_engine))
        oldest = now - self.scaling.scale_down_after_seconds
        kept = (past for past in self.needs if past.at >= oldest and past.engines > need.engines)
        return EngineCount(self.scaling, self.most, (*kept, need))
