"""A trainer that hangs: `restart.stallDeadlineSeconds` after its last report its Job is told to end, as a failed one.

What is counted is time in which its report was seen unchanged while all its pods ran and the API server answered. Only
a trainer that promised to report so often is judged: that of another version may be silent for as long as a step takes.
"""

import json

from sweyard_operator.build.run_context import ANNOTATION_STALLED, COMPONENT_TRAINER
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.plan import Patch
from sweyard_operator.plan.restart_policy import Running
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.resources import JOBS

_TRAINER = "trainer"


def hear_trainer(clock: SilenceClock, snapshot: RunSnapshot, outages: int, now: float) -> float:
    """Seconds for which the trainer has been silent though it could be heard. `now` is monotonic seconds."""
    clock.hear_outages(outages, now)
    report = _promised_report(snapshot)
    clock.hear(_TRAINER, report, now)
    return 0.0 if report is None else clock.silent_seconds(_TRAINER, now)


def _promised_report(snapshot: RunSnapshot) -> str | None:
    """The present attempt's last word, if there should be another."""
    report = snapshot.status.get("trainer") or {}
    attempt = max((job.attempt for job in snapshot.jobs), default=None)
    pods = [pod for pod in snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt == attempt]
    can_speak = all((pod.is_ready or pod.phase == "Succeeded") and not pod.is_terminating for pod in pods)
    promised = report.get("attempt") == attempt and report.get("reportEverySeconds") is not None
    return json.dumps(report, sort_keys=True) if pods and can_speak and promised else None


def seconds_to_stall(work: RunPass) -> float | None:
    """Until the trainer has been silent for too long, 0 or less from then on; None for never."""
    deadline = work.run.config.restart.stall_deadline_seconds
    if not isinstance(work.gang, Running) or deadline == 0 or _promised_report(work.snapshot) is None:
        return None
    return deadline - work.snapshot.silent_seconds


def end_stalled(work: RunPass) -> tuple[Patch, ...]:
    """The Job that is to end: its pods get SIGTERM and their grace period, in case that they can save after all."""
    left = seconds_to_stall(work)
    if left is None or left > 0 or not isinstance(work.gang, Running):
        return ()
    deadline = work.run.config.restart.stall_deadline_seconds
    told = f"it did not report for restart.stallDeadlineSeconds ({deadline}), until {work.now:%H:%M:%S} UTC"
    return (end_job(work.snapshot.namespace, work.gang.job, told),)


def end_job(namespace: str, job: TrainerJob, told: str) -> Patch:
    """Its controller ends the pods of a Job that is long over its time, and keeps the Job, which carries the counts."""
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": job.uid},
        {"op": "add", "path": f"/metadata/annotations/{ANNOTATION_STALLED.replace('/', '~1')}", "value": told},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1},
    )
    return Patch(JOBS, namespace, job.name, operations)
