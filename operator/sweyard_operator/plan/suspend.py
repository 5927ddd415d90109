"""`suspend`: a checkpoint, then everything that costs something is let go; the volume and the config stay."""

from datetime import datetime

from sweyard_operator.build.run_context import COMPONENT_TRAINER
from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Deletion, Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.restart_policy import Ledger
from sweyard_operator.plan.run_children import plan_release, plan_stop
from sweyard_operator.plan.run_status import (
    build_status,
    recorded_ledger,
    transition_events,
    unfinished_conditions,
)

_POLL_SECONDS = 10.0


def plan_suspended(snapshot: RunSnapshot, ledger: Ledger, total_steps: int, now: datetime) -> Plan:
    """One pass towards, or in, suspension. Finished Jobs stay: they are the ledger of what failed."""
    deletions = _plan_deletions(snapshot, ledger)
    live = sorted(pod.name for pod in snapshot.pods if pod.is_live)
    unfinished = any(not job.is_finished for job in snapshot.jobs)
    is_done = not live and not deletions and not unfinished
    conditions = _conditions(is_done, f"waiting for {', '.join(live[:3]) or 'the trainer Job'} to end")
    status = build_status(
        snapshot,
        phase="Suspended" if is_done else "Suspending",
        conditions=conditions,
        ledger=ledger,
        total_steps=total_steps,
        now=now,
        start=snapshot.time("startTime"),
    )
    return Plan(
        delete=deletions,
        events=transition_events(snapshot, conditions),
        status=status,
        requeue_after_seconds=None if is_done else _POLL_SECONDS,
    )


def _plan_deletions(snapshot: RunSnapshot, ledger: Ledger) -> tuple[Deletion, ...]:
    """The trainer first; engines, gateway and pool once it has written its checkpoint and is gone."""
    stop = plan_stop(snapshot)
    if stop:
        # A Job carries the counts; once it is gone, only the status does.
        return stop if recorded_ledger(snapshot) == ledger else ()
    if any(not job.is_finished for job in snapshot.jobs):
        return ()
    has_live_trainer = any(pod.is_live for pod in snapshot.pods_of(COMPONENT_TRAINER))
    return () if has_live_trainer else plan_release(snapshot, keeps_cache=True)


def _conditions(is_done: bool, waiting: str) -> list[Condition]:
    stages = (ConditionType.SANDBOXES_READY, ConditionType.INFERENCE_READY, ConditionType.TRAINER_READY)
    released = [Condition(kind, "False", Reason.SUSPENDED, "the run is suspended") for kind in stages]
    if is_done:
        message = "everything but the volume is released; set spec.suspend to false to go on from the last checkpoint"
        reason = Reason.SUSPENDED
    else:
        message, reason = waiting, Reason.SUSPENDING
    return [
        *released,
        Condition(ConditionType.PROGRESSING, "False", Reason.SUSPENDED, "spec.suspend is set"),
        *unfinished_conditions(),
        Condition(ConditionType.SUSPENDED, "True" if is_done else "False", reason, message),
    ]
