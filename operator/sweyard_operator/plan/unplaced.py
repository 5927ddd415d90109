"""All or nothing: pods that cannot all be placed within a deadline are let go, and the run tries again later. So they
are when quota or admission refuses something for as long, which the rest would stand and wait for.

The state is in the status alone: the condition Unplaced, True while the run waits and False while something is refused
that it may soon wait for, and a count of tries in vain.
Pauses grow, and differ from run to run, so that two runs that took half of what both need do not meet for ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.run_context import COMPONENT_ENGINE, COMPONENT_GATEWAY, COMPONENT_TRAINER
from sweyard_operator.conditions import Condition, parse_time
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.plan.engine_count import fewest_engines, plan_engine_count
from sweyard_operator.plan.engine_room import engines_placed
from sweyard_operator.plan.letting_go import plan_letting_go
from sweyard_operator.plan.pause import pause_seconds
from sweyard_operator.plan.plan import Deletion, Plan
from sweyard_operator.plan.pod_troubles import summarize_troubles
from sweyard_operator.plan.reasons import REFUSALS, ConditionType, Reason
from sweyard_operator.plan.restart_policy import Decision, Running, Start
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.run_status import kept_conditions
from sweyard_operator.plan.stages import plan_sandboxes, pool_unplaced_since
from sweyard_operator.plan.waiting import POLL_SECONDS, nothing_held, pending_status, plan_waiting, recorded_failures
from sweyard_operator.resources import PODS

_GRACE_SECONDS = 10
"""For pods of a gang that never was whole: they have nothing to save, and wait for each other until they are told."""


def seconds_to_placement_deadline(work: RunPass) -> float | None:
    """Until what waits for a node has waited for too long, 0 or less from then on; None while nothing waits.

    Under a gang that is placed, an engine without a place is none of its business: the others go on.
    """
    since = [pod.created for pod in _waiting_pods(work)]
    if isinstance(work.gang, Start) and (pool_since := pool_unplaced_since(work.run, work.snapshot)) is not None:
        since.append(pool_since)
    told = work.snapshot.condition(ConditionType.UNPLACED)
    if told.get("status") == "False":
        since.append(parse_time(told["lastTransitionTime"]))
    if not since:
        return None
    ends_at = min(since) + timedelta(seconds=work.run.config.placement_deadline_seconds)
    return (ends_at - work.now).total_seconds()


def _waiting_pods(work: RunPass) -> list[PodState]:
    match work.gang:
        case Start():
            candidates = [*_needed_engines(work), *work.snapshot.pods_of(COMPONENT_GATEWAY)]
        case Running(job):
            candidates = [pod for pod in work.snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt == job.attempt]
        case _:
            candidates = []
    return [pod for pod in candidates if pod.is_unschedulable and not pod.is_terminating]


def _needed_engines(work: RunPass) -> list[PodState]:
    """None once the fewest have their nodes: one more, which an earlier attempt asked for, is no reason to let go."""
    is_enough = engines_placed(work) >= fewest_engines(work.run.config.inference)
    return [] if is_enough else work.snapshot.pods_of(COMPONENT_ENGINE)


def plan_refused(gang: Decision, conditions: Sequence[Condition]) -> list[Condition]:
    """Unplaced, as False, while one of the `conditions` says that something may not be made: since when is known by it,
    as theirs may have been False for other reasons before. A gang at work needs its own pods alone."""
    match gang:
        case Start():
            kinds = [ConditionType.PROGRESSING, ConditionType.INFERENCE_READY]
        case Running():
            kinds = [ConditionType.TRAINER_READY]
        case _:
            kinds = []
    told = {one.type: one for one in conditions if one.status == "False" and one.reason in REFUSALS}
    refused = next((told[kind] for kind in kinds if kind in told), None)
    return [Condition(ConditionType.UNPLACED, "False", refused.reason, refused.message)] if refused else []


def plan_giving_up(work: RunPass) -> Plan:
    """Write that the run waits, and nothing else: once that is known, all is let go whoever does it."""
    failures = recorded_failures(work.snapshot) + 1
    again_at = work.now + timedelta(seconds=pause_seconds(work.snapshot.uid, failures))
    message = (
        f"not all pods were placed within placementDeadlineSeconds ({work.run.config.placement_deadline_seconds}), so "
        f"nothing is held until {again_at:%H:%M:%S} UTC: {_what_waits(work)}"
    )
    return _waiting(work, Plan(requeue_after_seconds=0.0), message, failures)


def _what_waits(work: RunPass) -> str:
    told = work.snapshot.condition(ConditionType.UNPLACED)
    if told.get("status") == "False":
        return str(told["message"])
    waiting = _waiting_pods(work)
    if not waiting:
        return plan_sandboxes(work.run, work.snapshot).message
    component = waiting[0].component
    wanted, field = {
        COMPONENT_ENGINE: (engine_pods(work.run, plan_engine_count(work)), "inference"),
        COMPONENT_TRAINER: (work.run.trainer_replicas, "trainer"),
    }.get(component, (1, "trainer"))
    trouble = summarize_troubles([pod for pod in waiting if pod.component == component], wanted, field)
    assert trouble is not None
    return trouble.message


def plan_unplaced(work: RunPass) -> Plan | None:
    """One pass of a run that waits for a place; None if it does not."""
    condition = work.snapshot.condition(ConditionType.UNPLACED)
    if condition.get("status") != "True":
        return None
    failures = recorded_failures(work.snapshot)
    pause = timedelta(seconds=pause_seconds(work.snapshot.uid, failures))
    again_in = (parse_time(condition["lastTransitionTime"]) + pause - work.now).total_seconds()
    going = plan_letting_go(work.snapshot, work.ledger)
    if not going.is_done:
        hurried = _hurry(work) if going.deletions else ()
        deeds = Plan(delete=(*hurried, *going.deletions), requeue_after_seconds=POLL_SECONDS)
        return _waiting(work, deeds, condition["message"], failures)
    if again_in > 0:
        return _waiting(work, Plan(requeue_after_seconds=again_in), condition["message"], failures)
    return _plan_again(work, failures)


def _hurry(work: RunPass) -> tuple[Deletion, ...]:
    """Its gang has no checkpoint to write. With the Job, not after it: a kubelet keeps to what it was told first."""
    return tuple(
        Deletion(PODS, work.snapshot.namespace, pod.name, pod.uid, grace_period_seconds=_GRACE_SECONDS)
        for pod in work.snapshot.pods_of(COMPONENT_TRAINER)
        if pod.is_live and not pod.is_terminating
    )


def _plan_again(work: RunPass, failures: int) -> Plan:
    """Take the condition away before anything is made, or after a pass that dies in between it would be let go."""
    again = Condition(
        ConditionType.PROGRESSING, "True", Reason.STARTING, f"Pending: placed anew, after {failures} tries"
    )
    conditions = [one for one in kept_conditions(work.snapshot, [again]) if one.type != ConditionType.UNPLACED]
    status = pending_status(work, conditions, start=_start(work), placement_failures=failures)
    return Plan(status=status, requeue_after_seconds=0.0)


def _waiting(work: RunPass, deeds: Plan, message: str, failures: int) -> Plan:
    reason = Reason.PLACEMENT_DEADLINE
    return plan_waiting(
        work,
        nothing_held(Reason.RELEASED, "let go until all pods can be placed"),
        Condition(ConditionType.PROGRESSING, "False", reason, message),
        Condition(ConditionType.UNPLACED, "True", reason, message),
        deeds=deeds,
        start=_start(work),
        placement_failures=failures,
    )


def _start(work: RunPass) -> datetime:
    return work.snapshot.time("startTime") or work.now
