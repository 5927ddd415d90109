"""A trainer that hangs: `restart.stallDeadlineSeconds` after its last report its Job is told to end, as a failed one.

What is counted is time in which its report was seen unchanged while all its pods ran and the API server answered;
before its first report, time in which there was none. A trainer that reported without the promise to do so often is not
judged: that of another version may be silent for as long as a step takes.
"""

import json
from typing import Any

from sweyard_api.json_pointer import annotation_path
from sweyard_operator.build.run_context import ANNOTATION_STALLED, COMPONENT_TRAINER
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.plan import Patch
from sweyard_operator.plan.restart_policy import Running
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.resources import JOBS

FIRST_REPORT_SECONDS = 1_800
"""At least so long it may take until it reports for the first time. Image and model are there when its container
starts, and it loads the weights after that report; but it imports PyTorch and may download data sets before."""

_TRAINER = "trainer"


def hear_trainer(clock: SilenceClock, snapshot: RunSnapshot, outages: int, now: float) -> float:
    """Seconds for which the trainer has been silent though it could be heard. `now` is monotonic seconds."""
    clock.hear_outages(outages, now)
    sign = _sign_of_life(snapshot)
    clock.hear(_TRAINER, sign, now)
    return 0.0 if sign is None else clock.silent_seconds(_TRAINER, now)


def _sign_of_life(snapshot: RunSnapshot) -> str | None:
    """What the present attempt's next word will change; None if it need not, or cannot, say one."""
    job = max(snapshot.jobs, key=lambda job: job.attempt, default=None)
    if job is None or not _can_speak(snapshot, job):
        return None
    report = _report(snapshot)
    promised = report.get("reportEverySeconds") is not None or not has_reported(snapshot, job)
    return json.dumps([job.attempt, report], sort_keys=True) if promised else None


def _can_speak(snapshot: RunSnapshot, job: TrainerJob) -> bool:
    """Whether the whole gang is there, and not over."""
    pods = [pod for pod in snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt == job.attempt]
    run = [pod for pod in pods if (pod.is_ready or pod.phase == "Succeeded") and not pod.is_terminating]
    return len(run) == len(pods) == job.num_ranks and any(pod.is_ready for pod in pods)


def has_reported(snapshot: RunSnapshot, job: TrainerJob) -> bool:
    """Whether this attempt's trainer has."""
    return _report(snapshot).get("attempt") == job.attempt


def _report(snapshot: RunSnapshot) -> dict[str, Any]:
    return snapshot.status.get("trainer") or {}


def seconds_to_stall(work: RunPass) -> float | None:
    """Until the trainer has been silent for too long, 0 or less from then on; None for never."""
    deadline = work.run.config.restart.stall_deadline_seconds
    if not isinstance(work.gang, Running) or deadline == 0 or _sign_of_life(work.snapshot) is None:
        return None
    is_first = not has_reported(work.snapshot, work.gang.job)
    return (max(deadline, FIRST_REPORT_SECONDS) if is_first else deadline) - work.snapshot.silent_seconds


def end_stalled(work: RunPass) -> tuple[Patch, ...]:
    """The Job that is to end: its pods get SIGTERM and their grace period, in case that they can save after all."""
    left = seconds_to_stall(work)
    if left is None or left > 0 or not isinstance(work.gang, Running):
        return ()
    told = f"it did not report for {told_deadline(work, work.gang.job)}, until {work.now:%H:%M:%S} UTC"
    return (end_job(work.snapshot.namespace, work.gang.job, told),)


def told_deadline(work: RunPass, job: TrainerJob) -> str:
    """How long it may be silent, in words."""
    deadline = work.run.config.restart.stall_deadline_seconds
    if has_reported(work.snapshot, job) or deadline >= FIRST_REPORT_SECONDS:
        return f"restart.stallDeadlineSeconds ({deadline})"
    return f"the {FIRST_REPORT_SECONDS} s that it has for its first report"


def end_job(namespace: str, job: TrainerJob, told: str) -> Patch:
    """Its controller ends the pods of a Job that is long over its time, and keeps the Job, which carries the counts."""
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": job.uid},
        {"op": "add", "path": annotation_path(ANNOTATION_STALLED), "value": told},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1},
    )
    return Patch(JOBS, namespace, job.name, operations)
