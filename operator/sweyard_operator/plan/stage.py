"""What one stage of a run has come to."""

from dataclasses import dataclass

from sweyard_operator.conditions import Condition
from sweyard_operator.plan.reasons import ConditionType, Reason

NOTHING_ATTEMPTED = "the run learns from recorded trajectories and evaluates nothing"
"""Why no image, sandbox or engine is needed."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage's condition, and whether the trainer may start as far as it is concerned."""

    type: ConditionType
    is_ready: bool
    reason: Reason
    message: str
    lets_start: bool = False
    """Good enough to start the trainer though not all is ready."""

    @property
    def opens(self) -> bool:
        return self.is_ready or self.lets_start

    def condition(self) -> Condition:
        return Condition(self.type, "True" if self.is_ready else "False", self.reason, self.message)
