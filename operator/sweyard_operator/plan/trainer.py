"""TrainerReady: what the gang does, or what it waits for."""

from collections.abc import Sequence

from sweyard_operator.build.run_context import COMPONENT_TRAINER, RunContext
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.pod_troubles import failed_create, summarize_troubles
from sweyard_operator.plan.progress import has_reported_its_end
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.restart_policy import Decision, Ended, Running, Start, Waiting
from sweyard_operator.plan.stage import Stage

_KIND = ConditionType.TRAINER_READY


def plan_trainer(run: RunContext, snapshot: RunSnapshot, gang: Decision, stages: Sequence[Stage]) -> Stage:
    """The condition of the trainer."""
    match gang:
        case Running(job):
            return _running(run, snapshot, job)
        case Waiting(reason, message):
            return Stage(_KIND, False, reason, message)
        case Ended(_, reason, message):
            return Stage(_KIND, False, reason, message)
        case Start(attempt):
            closed = [stage.type for stage in stages if not stage.opens]
            message = f"attempt {attempt} waits for {', '.join(closed)}" if closed else f"attempt {attempt} is created"
            return Stage(_KIND, False, Reason.WAITING if closed else Reason.CREATING, message)


def _running(run: RunContext, snapshot: RunSnapshot, job: TrainerJob) -> Stage:
    if job.is_suspended:
        message = (
            f"Job {job.name} was suspended, not by this operator; where Kueue manages Jobs without a queue name, give "
            "the run a queueName"
        )
        return Stage(_KIND, False, Reason.JOB_SUSPENDED, message)
    wanted = run.trainer_replicas
    pods = [pod for pod in snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt == job.attempt]
    running = sum(pod.is_ready or pod.phase == "Succeeded" for pod in pods)
    if running >= wanted:
        return Stage(_KIND, True, Reason.RUNNING, f"attempt {job.attempt}: {running} of {wanted} pods run")
    trouble = summarize_troubles(pods, wanted, "trainer")
    if trouble is None and job.warning is not None and len(pods) < wanted:
        trouble = failed_create(job.warning, "trainer")
    if trouble is not None:
        return Stage(_KIND, False, trouble.reason, trouble.message)
    if has_reported_its_end(snapshot.status, job.attempt):  # pods that end are not Ready before they have Succeeded
        return Stage(_KIND, True, Reason.RUNNING, f"attempt {job.attempt}: its work is done, its pods end")
    return Stage(_KIND, False, Reason.STARTING, f"attempt {job.attempt}: {running} of {wanted} pods run")
