"""Progressing: whether the run goes forward, and the first thing in its way."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.plan import RefusalReason
from sweyard_operator.plan.progress import SILENCE, silent_since
from sweyard_operator.plan.reasons import WARNINGS, ConditionType, Reason
from sweyard_operator.plan.restart_policy import Running, Waiting
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.stage import Stage
from sweyard_operator.plan.stale_token import stale_token
from sweyard_operator.plan.stall import has_reported, seconds_to_stall, told_deadline
from sweyard_operator.plan.volume import volume_wait
from sweyard_operator.resources import POD_GROUPS, WORKLOADS

Obstacle = tuple[Reason, str]
"""What is in the way, in a word and in a sentence."""

_REFUSALS = {
    RefusalReason.QUOTA_EXCEEDED: Reason.QUOTA_EXCEEDED,
    RefusalReason.FORBIDDEN: Reason.FORBIDDEN,
    RefusalReason.INVALID: Reason.REFUSED,
}
_NOT_SERVED = {
    WORKLOADS.kind: (
        Reason.QUEUE_MISSING,
        "install Kueue 0.15 or later, or suspend the run and take its queueName away",
    ),
    POD_GROUPS.kind: (
        Reason.POD_GROUP_MISSING,
        "start API server and scheduler with GenericWorkload and GangScheduling, or make the run anew without "
        "trainer.podGroup",
    ),
}


def plan_progressing(work: RunPass, stages: Sequence[Stage], obstacle: Obstacle | None, phase: str) -> Condition:
    """The condition of an active run."""
    waits_for_volume = volume_wait(work.snapshot) if not stages[-1].is_ready else None
    obstacle = obstacle or waits_for_volume or _stage_obstacle(stages)
    obstacle = obstacle or stale_token(work) or _kept(work.snapshot) or _silence(work)
    if obstacle is not None:
        return Condition(ConditionType.PROGRESSING, "False", *obstacle)
    trainer = stages[-1]
    reason = (
        Reason.RESTARTING if isinstance(work.gang, Waiting) else Reason.RUNNING if trainer.is_ready else Reason.STARTING
    )
    waiting = next((stage.message for stage in stages if not stage.opens), trainer.message)
    return Condition(ConditionType.PROGRESSING, "True", reason, f"{phase}: {waiting}")


def find_obstacle(snapshot: RunSnapshot, conflicts: Sequence[str], going: Sequence[str] = ()) -> Obstacle | None:
    """What keeps children from being made; `conflicts` are the taken names, with their kinds, and `going` are sentences
    about children that are being deleted."""
    if conflicts:
        more = f" ({len(conflicts) - 1} more are not either)" if len(conflicts) > 1 else ""
        message = f"{conflicts[0]} exists and is not this run's; delete it or give the run another name{more}"
        return Reason.NAME_CONFLICT, message
    if going:
        return Reason.TERMINATING, f"{going[0]}; it is made anew when it is"
    if missing := snapshot.missing_datasets():
        name = missing[0]
        return (
            Reason.DATASET_MISSING,
            f'ConfigMap "{name}" of tasks.dataset does not exist; make it: sweyard tasks push {name} '
            f"--namespace {snapshot.namespace}",
        )
    refusal = next((one for one in snapshot.refusals if not one.stays), None)
    if refusal is not None:
        if refusal.reason == RefusalReason.NOT_SERVED:
            reason, remedy = _NOT_SERVED.get(refusal.kind, (Reason.REFUSED, "install the chart again"))
            return reason, f"{refusal.message}: {remedy}"
        return _REFUSALS[refusal.reason], str(refusal)
    return None


def _kept(snapshot: RunSnapshot) -> Obstacle | None:
    """What may not be deleted or changed: nothing waits for it, or nobody would restart the trainer meanwhile."""
    refusal = next((one for one in snapshot.refusals if one.stays), None)
    return None if refusal is None else (_REFUSALS[refusal.reason], str(refusal))


def _stage_obstacle(stages: Sequence[Stage]) -> Obstacle | None:
    troubled = [stage for stage in stages if not stage.opens and stage.reason in WARNINGS - {Reason.BACK_OFF}]
    return (troubled[0].reason, troubled[0].message) if troubled else None


def _silence(work: RunPass) -> Obstacle | None:
    if not isinstance(work.gang, Running):
        return None
    job = work.gang.job
    last = _last_heard(work, job)
    if last is None:
        return None
    then = f"; after {told_deadline(work, job)} it is started again" if seconds_to_stall(work) else ""
    return (
        Reason.NO_REPORT,
        f"the trainer has not reported since {last:%H:%M:%S} UTC; see kubectl logs job/{job.name}{then}",
    )


def _last_heard(work: RunPass, job: TrainerJob) -> datetime | None:
    """When it last reported, or all its pods were seen to run, if that is too long ago."""
    if has_reported(work.snapshot, job):
        return silent_since(work.snapshot.run, job.attempt, work.now)
    silence = timedelta(seconds=work.snapshot.silent_seconds)
    return work.now - silence if silence > SILENCE else None
