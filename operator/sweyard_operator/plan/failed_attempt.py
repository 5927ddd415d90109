"""How the last attempt failed, kept in the status while the next one runs; and whether that is worth another try."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweyard_api.training_run import FailedAttempt
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.reasons import MEMORY, REMEDIES, Reason


def read_failure(status: Mapping[str, Any]) -> FailedAttempt | None:
    """The last failure that the status shows."""
    recorded = status.get("lastFailure")
    return None if recorded is None else FailedAttempt.model_validate(recorded)


def last_failure(
    jobs: Sequence[TrainerJob], pods: Sequence[PodState], status: Mapping[str, Any], lost_nodes: Collection[str]
) -> FailedAttempt | None:
    """The failure of the newest Job that fails, or the one recorded where no pod is left that tells more.

    A disruption or a stall is told as soon as it is seen: its pods may be gone when the Job has failed.
    """
    recorded = read_failure(status)
    failing = [job for job in jobs if job.is_failed or job.stalled or _disruption(job, pods, lost_nodes)]
    newest = max((job for job in failing if not job.is_complete), key=lambda job: job.attempt, default=None)
    if newest is None or (recorded is not None and recorded.attempt > newest.attempt):
        return recorded
    own_pods, disruption = [pod for pod in pods if pod.attempt == newest.attempt], _disruption(newest, pods, lost_nodes)
    if recorded is not None and recorded.attempt == newest.attempt:
        if is_disruption(recorded) or not (disruption or any(pod.trouble for pod in own_pods)):
            return recorded
        return _describe(newest, own_pods, disruption, _reported_step(status, newest.attempt) or recorded.step)
    return _describe(newest, own_pods, disruption, _reported_step(status, newest.attempt))


def _describe(job: TrainerJob, own_pods: Sequence[PodState], disruption: str | None, step: int | None) -> FailedAttempt:
    if disruption is not None:
        return FailedAttempt(attempt=job.attempt, step=step, reason=Reason.DISRUPTED, message=disruption)
    first = first_to_fail(own_pods)
    if job.stalled is not None:
        last_words = f"; {first_cause(job, own_pods)}" if first is not None and first.ended_at else ""
        return FailedAttempt(attempt=job.attempt, step=step, reason=Reason.STALLED, message=job.stalled + last_words)
    reason = first.trouble.reason if first is not None and first.trouble else Reason.EXITED
    return FailedAttempt(attempt=job.attempt, step=step, reason=reason, message=first_cause(job, own_pods))


def _disruption(job: TrainerJob, pods: Sequence[PodState], lost_nodes: Collection[str]) -> str | None:
    """What the cluster did to an attempt, in a sentence.

    Of a node that is lost the other ranks notice first, and fail for it; their Job has asked for the end of the rank
    on it by then, and nobody evicts that any more.
    """
    own_pods = [pod for pod in pods if pod.attempt == job.attempt]
    told = [f"pod {pod.name}: {pod.trouble.message}" for pod in own_pods if pod.is_disrupted and pod.trouble]
    lost = [f"pod {pod.name}: node {pod.node} is lost" for pod in own_pods if pod.is_lost_with(lost_nodes)]
    return next(iter([*told, *lost]), None)


def _reported_step(status: Mapping[str, Any], attempt: int) -> int | None:
    """None once the next attempt has reported."""
    report = status.get("trainer") or {}
    return report.get("step") if report.get("attempt") == attempt else None


def is_disruption(failure: FailedAttempt) -> bool:
    """Whether the cluster ended the attempt, for reasons of its own."""
    return failure.reason == Reason.DISRUPTED


def repeats_itself(failure: FailedAttempt | None, before: FailedAttempt | None) -> bool:
    """Whether memory ran out twice, of the same kind and at the same step: a third try would need as much."""
    return (
        failure is not None
        and before is not None
        and before.attempt < failure.attempt
        and failure.reason in MEMORY
        and (failure.reason, failure.step) == (before.reason, before.step)
    )


def describe_repetition(failure: FailedAttempt, before: FailedAttempt) -> str:
    """Why there is no third try, and what to change."""
    when = "before its first step" if failure.step is None else f"after step {failure.step}"
    remedy = REMEDIES[Reason(failure.reason)].format(field="trainer")
    return (
        f"attempts {before.attempt} and {failure.attempt} both ran out of memory {when}, so another would too; "
        f"{remedy}. {failure.message}"
    )


def first_to_fail(pods: Sequence[PodState]) -> PodState | None:
    """The pod that failed first, since the others die of its death; one without a time only where none has one."""
    timed = [(pod.ended_at, pod.name, pod) for pod in pods if pod.trouble and pod.ended_at]
    if timed:
        return min(timed, key=lambda end: end[:2])[2]
    return next((pod for pod in pods if pod.trouble), None)


def first_cause(job: TrainerJob, pods: Sequence[PodState]) -> str:
    """What ended an attempt, in a sentence."""
    first = first_to_fail(pods)
    if first is None or first.trouble is None:
        return job.message or f"Job {job.name} failed"
    return f"pod {first.name}: {first.trouble.message}"
