"""A run whose spec is wrong, or whose stored config this operator cannot read: it is told, and nothing is done."""

from datetime import datetime

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.run_status import (
    build_status,
    kept_conditions,
    not_suspended,
    recorded_ledger,
    transition_events,
    unfinished_conditions,
)
from sweyard_operator.plan.waiting import recorded_failures


def plan_invalid(snapshot: RunSnapshot, message: str, now: datetime) -> Plan:
    """Nothing is made of a spec that is wrong; mending it sets the run going."""
    conditions = [
        Condition(ConditionType.PROGRESSING, "False", Reason.INVALID_SPEC, message),
        *unfinished_conditions(),
        not_suspended(),
        Condition(ConditionType.INVALID_SPEC, "True", Reason.INVALID_SPEC, message),
    ]
    ledger = recorded_ledger(snapshot)
    status = build_status(
        snapshot, phase="Pending", conditions=conditions, ledger=ledger, total_steps=0, now=now, start=None
    )
    return Plan(status=status, events=transition_events(snapshot, conditions[:1]))


def plan_unreadable(snapshot: RunSnapshot, message: str, now: datetime) -> Plan:
    """A run that began under another version goes on by itself, and it is told why nobody looks after it."""
    conditions = kept_conditions(
        snapshot, [Condition(ConditionType.PROGRESSING, "False", Reason.INVALID_SPEC, message)]
    )
    status = build_status(
        snapshot,
        phase=str(snapshot.status.get("phase") or "Pending"),
        conditions=conditions,
        ledger=recorded_ledger(snapshot),
        total_steps=int(snapshot.status.get("totalSteps") or 0),
        now=now,
        start=snapshot.time("startTime"),
        placement_failures=recorded_failures(snapshot),
    )
    return Plan(status=status, events=transition_events(snapshot, conditions))
