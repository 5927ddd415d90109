"""The end of a run: the verdict is written first, then what costs something is let go, then the run itself."""

from datetime import datetime

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.letting_go import plan_letting_go
from sweyard_operator.plan.plan import Deletion, Plan
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.restart_policy import Ended, Ledger
from sweyard_operator.plan.run_status import (
    build_status,
    kept_conditions,
    not_suspended,
    recorded_ledger,
    transition_events,
    unfinished_conditions,
)
from sweyard_operator.plan.ttl import expiry
from sweyard_operator.resources import ROLLOUT_POOLS, TRAINING_RUNS

_OF_A_RUN_THAT_WAITS = (ConditionType.ADMITTED, ConditionType.UNPLACED)


def is_finished(snapshot: RunSnapshot) -> bool:
    """Whether the verdict is written; it is never taken back."""
    return snapshot.has_condition(ConditionType.SUCCEEDED) or snapshot.has_condition(ConditionType.FAILED)


def plan_verdict(snapshot: RunSnapshot, ended: Ended, ledger: Ledger, total_steps: int, now: datetime) -> Plan:
    """Write the verdict and nothing else: whatever dies afterwards, the run stays over."""
    verdict = ConditionType.SUCCEEDED if ended.is_success else ConditionType.FAILED
    others = [condition for condition in unfinished_conditions() if condition.type != verdict]
    changed = [
        *others,
        Condition(verdict, "True", ended.reason, ended.message),
        Condition(ConditionType.TRAINER_READY, "False", ended.reason, ended.message),
        Condition(ConditionType.PROGRESSING, "False", Reason.FINISHED, f"the run is over: {ended.message}"),
        not_suspended(),
    ]
    conditions = [one for one in kept_conditions(snapshot, changed) if one.type not in _OF_A_RUN_THAT_WAITS]
    status = build_status(
        snapshot,
        phase=str(verdict),
        conditions=conditions,
        ledger=ledger,
        total_steps=total_steps,
        now=now,
        start=snapshot.time("startTime") or now,
        completion=now,
    )
    events = transition_events(snapshot, [condition for condition in conditions if condition.type == verdict])
    return Plan(events=events, status=status, requeue_after_seconds=0.0)


def plan_finished(snapshot: RunSnapshot, now: datetime) -> Plan:
    """Release what a finished run does not need; config, volume and the last Jobs with their logs stay."""
    ends_at = expiry(snapshot, snapshot.run["spec"].get("ttlSecondsAfterFinished"))
    if ends_at is not None and now >= ends_at:
        return Plan(delete=(Deletion(TRAINING_RUNS, snapshot.namespace, snapshot.name, snapshot.uid),))
    kinds = [ConditionType.INFERENCE_READY, ConditionType.TRAINER_READY]
    if snapshot.owned(ROLLOUT_POOLS, snapshot.name) is not None:
        kinds.append(ConditionType.SANDBOXES_READY)
    going = plan_letting_go(snapshot, recorded_ledger(snapshot), keeps_cache=False)
    told = "released: the run is over" if going.is_done else f"the run is over: {going.waits_for}"
    released = [Condition(kind, "False", Reason.RELEASED, told) for kind in kinds]
    status = build_status(
        snapshot,
        phase=str(snapshot.status.get("phase")),
        conditions=kept_conditions(snapshot, released),
        ledger=recorded_ledger(snapshot),
        total_steps=int(snapshot.status.get("totalSteps") or 0),
        now=now,
        start=snapshot.time("startTime"),
        completion=snapshot.time("completionTime") or now,
    )
    return Plan(
        delete=going.deletions,
        status=status,
        requeue_after_seconds=(ends_at - now).total_seconds() if ends_at is not None else None,
    )
