"""A run that is deleted and not gone, since somebody else's finalizer keeps it: only what costs is let go meanwhile.

Without one the garbage collector does all, as it does in the end.
"""

from datetime import datetime

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.letting_go import plan_letting_go
from sweyard_operator.plan.plan import Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.run_status import build_status, kept_conditions, recorded_ledger
from sweyard_operator.plan.waiting import POLL_SECONDS

_OF_THE_COLLECTOR = frozenset({"orphan", "foregroundDeletion"})
"""Its own: it deletes the children, or was asked to leave them."""


def plan_deleted(snapshot: RunSnapshot, now: datetime) -> Plan:
    """The trainer has its time for a checkpoint, as ever."""
    finalizers = snapshot.run["metadata"].get("finalizers") or ()
    if not finalizers or _OF_THE_COLLECTOR & set(finalizers):
        return Plan()
    ledger = recorded_ledger(snapshot)
    going = plan_letting_go(snapshot, ledger, keeps_cache=False)
    held = "nothing is held" if going.is_done else going.waits_for
    message = f"the run is deleted and kept by the finalizer {', '.join(finalizers)}: {held}"
    status = build_status(
        snapshot,
        phase=str(snapshot.status.get("phase") or "Pending"),
        conditions=kept_conditions(
            snapshot, [Condition(ConditionType.PROGRESSING, "False", Reason.TERMINATING, message)]
        ),
        ledger=ledger,
        total_steps=int(snapshot.status.get("totalSteps") or 0),
        now=now,
        start=snapshot.time("startTime"),
        completion=snapshot.time("completionTime"),
    )
    return Plan(delete=going.deletions, status=status, requeue_after_seconds=None if going.is_done else POLL_SECONDS)
