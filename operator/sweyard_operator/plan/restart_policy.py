"""What becomes of the trainer gang: one attempt at a time, started anew within a budget.

An attempt that the cluster ended (a drain, a preemption, a lost node) does not count towards it.

The ledger of attempts and restarts is the greatest of what the status and the Jobs say: a Job carries the counts it
was started with, and is never deleted before the status shows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sweyard_api.infrastructure import Restart
from sweyard_api.training_run import FailedAttempt
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.failed_attempt import describe_repetition, is_disruption, repeats_itself
from sweyard_operator.plan.outlived import have_done_their_work
from sweyard_operator.plan.reasons import Reason

_MAX_BACKOFF_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Ledger:
    """Attempts started and restarts spent."""

    attempts: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """Start this attempt now, if the rest of the run is ready."""

    attempt: int
    restarts: int


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt is under way."""

    job: TrainerJob


@dataclass(frozen=True, slots=True)
class Waiting:
    """Between two attempts."""

    reason: Reason
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """No further attempt."""

    is_success: bool
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Failures:
    """How attempts failed."""

    last: FailedAttempt | None = None
    """The newest, as what there is tells it."""
    recorded: FailedAttempt | None = None
    """As the status shows it: the same one, or the one before."""


Decision = Start | Running | Waiting | Ended


def count_ledger(recorded: Ledger, jobs: Sequence[TrainerJob]) -> Ledger:
    """The ledger as status and Jobs together tell it."""
    return Ledger(
        attempts=max([recorded.attempts, *(job.attempt + 1 for job in jobs)]),
        restarts=max([recorded.restarts, *(job.restarts for job in jobs)]),
    )


def decide_gang(
    jobs: Sequence[TrainerJob],
    pods: Sequence[PodState],
    ledger: Ledger,
    restart: Restart,
    failures: Failures,
    now: datetime,
) -> Decision:
    """What to do about the trainer; `pods` are the run's trainer pods of all attempts."""
    newest = max(jobs, key=lambda job: job.attempt, default=None)
    if newest is None or newest.attempt + 1 < ledger.attempts:  # the last one was let go, and none before it counts
        return _wait_for_pods(pods) or Start(ledger.attempts, ledger.restarts)
    own_pods = [pod for pod in pods if pod.attempt == newest.attempt]
    if newest.is_complete:
        return Ended(True, Reason.FINISHED, f"attempt {newest.attempt} ended with every rank successful")
    if (fault := _user_fault(newest, own_pods)) is not None:
        return Ended(False, Reason.USER_ERROR, fault)
    if newest.is_deleting:
        return Waiting(Reason.TERMINATING, f"Job {newest.name} is being deleted")
    if newest.is_failed:
        return _decide_restart(newest, pods, ledger, restart, failures, now)
    if newest.stalled is not None:
        return Waiting(Reason.STALLED, f"Job {newest.name} ends: {newest.stalled}")
    if have_done_their_work(own_pods, newest.num_ranks, now):
        message = f"attempt {newest.attempt} ended with every rank successful; what was added to their pods is ended"
        return Ended(True, Reason.FINISHED, message)
    return Running(newest)


def _decide_restart(
    failed: TrainerJob,
    pods: Sequence[PodState],
    ledger: Ledger,
    restart: Restart,
    failures: Failures,
    now: datetime,
) -> Decision:
    last, before = failures.last, failures.recorded
    if last is not None and before is not None and repeats_itself(last, before):
        return Ended(False, Reason.USER_ERROR, describe_repetition(last, before))
    cause = last.message if last is not None else f"Job {failed.name} failed"
    is_disrupted = last is not None and is_disruption(last)
    if ledger.restarts >= restart.limit and not is_disrupted:
        message = f"attempt {failed.attempt} failed and restart.limit is {restart.limit}; {cause}"
        return Ended(False, Reason.RESTART_LIMIT, message)
    if (wait := _wait_for_pods(pods) or _wait_for_job(failed)) is not None:
        return wait
    until = (failed.ended_at or now) + timedelta(seconds=backoff_seconds(restart, ledger.restarts))
    if now < until:
        message = f"attempt {failed.attempt} failed, the next starts at {until:%H:%M:%S} UTC; {cause}"
        return Waiting(Reason.BACK_OFF, message, until)
    return Start(ledger.attempts, ledger.restarts + (0 if is_disrupted else 1))


def backoff_seconds(restart: Restart, restarts: int) -> int:
    """Wait before the next restart, when so many were made."""
    # The exponent is bounded before it is used: 2**1000 seconds is no number of seconds.
    return int(min(restart.backoff_seconds * 2 ** min(restarts, 16), _MAX_BACKOFF_SECONDS))


def _user_fault(job: TrainerJob, pods: Sequence[PodState]) -> str | None:
    said = [pod.user_fault for pod in sorted(pods, key=lambda pod: pod.name) if pod.user_fault is not None]
    if said:
        return said[0]
    return job.message or "a container ended with exit code 2" if job.is_user_fault else None


def _wait_for_pods(pods: Sequence[PodState]) -> Waiting | None:
    """Two gangs must never write to one volume: a pod that cannot be seen to have ended is waited for."""
    live = sorted(pod.name for pod in pods if pod.is_live)
    if not live:
        return None
    more = f" and {len(live) - 1} more" if len(live) > 1 else ""
    message = f"waiting for pod {live[0]}{more} of an earlier attempt to end"
    return Waiting(Reason.TERMINATING, message)


def _wait_for_job(job: TrainerJob) -> Waiting | None:
    if job.num_live == 0:
        return None
    return Waiting(Reason.TERMINATING, f"waiting for {job.num_live} pods of Job {job.name} to end")
