"""A run that waits and holds nothing, in its queue or between tries to be placed: what its status says."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.run_status import build_status, not_suspended, transition_events, unfinished_conditions

POLL_SECONDS = 10.0
"""While an end or somebody's word is awaited that no watch tells."""
_HELD_STAGES = (ConditionType.SANDBOXES_READY, ConditionType.INFERENCE_READY, ConditionType.TRAINER_READY)


def recorded_failures(snapshot: RunSnapshot) -> int:
    """Tries in vain to place all pods, one after the other, as the status shows them."""
    return int(snapshot.status.get("placementFailures") or 0)


def nothing_held(reason: Reason, message: str) -> list[Condition]:
    """The conditions of the stages that hold something when the run does not wait."""
    return [Condition(kind, "False", reason, message) for kind in _HELD_STAGES]


def plan_waiting(
    work: RunPass,
    stages: Sequence[Condition],
    progressing: Condition,
    waiting: Condition,
    *,
    deeds: Plan,
    start: datetime | None,
    placement_failures: int,
) -> Plan:
    """`deeds` with the status; `waiting` is the condition whose changes are told as events."""
    conditions = [*stages, progressing, *unfinished_conditions(), not_suspended(), waiting]
    status = pending_status(work, conditions, start=start, placement_failures=placement_failures)
    return replace(deeds, status=status, events=transition_events(work.snapshot, [waiting]))


def pending_status(
    work: RunPass, conditions: Sequence[Condition], *, start: datetime | None, placement_failures: int
) -> dict[str, Any]:
    """The operator's whole share."""
    return build_status(
        work.snapshot,
        phase="Pending",
        conditions=conditions,
        ledger=work.ledger,
        total_steps=work.total_steps,
        now=work.now,
        start=start,
        placement_failures=placement_failures,
    )
