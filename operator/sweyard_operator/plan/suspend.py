"""`suspend`: a checkpoint, then everything that costs something is let go; the volume and the config stay."""

from datetime import datetime

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.letting_go import plan_letting_go
from sweyard_operator.plan.plan import Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.restart_policy import Ledger
from sweyard_operator.plan.run_status import build_status, transition_events, unfinished_conditions
from sweyard_operator.plan.waiting import POLL_SECONDS, nothing_held


def plan_suspended(snapshot: RunSnapshot, ledger: Ledger, total_steps: int, now: datetime) -> Plan:
    """One pass towards, or in, suspension."""
    going = plan_letting_go(snapshot, ledger)
    conditions = _conditions(going.is_done, going.waits_for)
    status = build_status(
        snapshot,
        phase="Suspended" if going.is_done else "Suspending",
        conditions=conditions,
        ledger=ledger,
        total_steps=total_steps,
        now=now,
        start=snapshot.time("startTime"),
    )
    return Plan(
        delete=going.deletions,
        events=transition_events(snapshot, conditions),
        status=status,
        requeue_after_seconds=None if going.is_done else POLL_SECONDS,
    )


def _conditions(is_done: bool, waiting: str) -> list[Condition]:
    if is_done:
        message = (
            "all but volume and image cache is released; set spec.suspend to false to go on from the last checkpoint"
        )
        reason = Reason.SUSPENDED
    else:
        message, reason = waiting, Reason.SUSPENDING
    return [
        *nothing_held(Reason.SUSPENDED, "the run is suspended"),
        Condition(ConditionType.PROGRESSING, "False", Reason.SUSPENDED, "spec.suspend is set"),
        *unfinished_conditions(),
        Condition(ConditionType.SUSPENDED, "True" if is_done else "False", reason, message),
    ]
