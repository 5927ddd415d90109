"""One attempt of the trainer gang, as its Job tells."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from sweyard_operator.build.run_context import ANNOTATION_RESTARTS, ANNOTATION_STALLED, ENV_GATEWAY_URL
from sweyard_operator.conditions import find_condition, parse_time
from sweyard_operator.resources import Manifest, annotations_of, name_of


@dataclass(frozen=True, slots=True)
class TrainerJob:
    """A Job of a run's trainer."""

    name: str
    uid: str
    attempt: int
    num_ranks: int
    restarts: int
    """Restarts counted when it was started."""
    is_deleting: bool
    is_complete: bool
    is_failed: bool
    is_user_fault: bool
    """A container ended with exit code 2, as the Job's own failure policy recorded."""
    ended_at: datetime | None
    message: str
    """The Job controller's words on its end."""
    is_suspended: bool
    """Somebody set spec.suspend, which the operator never does."""
    stalled: str | None
    """Why it was told to end, if its trainer hung."""
    num_live: int
    """Pods that the Job controller still counts as active or terminating."""
    gateway_address: str | None
    """What its pods know the gateway by."""
    warning: str | None
    """Last Warning event: why pods could not be created."""

    @property
    def is_finished(self) -> bool:
        return self.is_complete or self.is_failed


def read_job(job: Manifest, warning: str | None = None) -> TrainerJob:
    """Parse a Job that the operator made."""
    status = job.get("status") or {}
    complete, failed = _condition(status, "Complete"), _condition(status, "Failed")
    verdict = failed or _condition(status, "FailureTarget")
    ended = (complete or failed).get("lastTransitionTime")
    return TrainerJob(
        name=name_of(job),
        uid=job["metadata"]["uid"],
        attempt=attempt_of(job),
        num_ranks=int(job["spec"]["parallelism"]),
        restarts=int(annotations_of(job).get(ANNOTATION_RESTARTS, "0")),
        is_deleting="deletionTimestamp" in job["metadata"],
        is_complete=bool(complete),
        is_failed=bool(failed),
        is_user_fault=verdict.get("reason") == "PodFailurePolicy",
        ended_at=parse_time(ended) if ended else None,
        message=str(verdict.get("message", "")),
        is_suspended=bool(job["spec"].get("suspend")),
        stalled=annotations_of(job).get(ANNOTATION_STALLED),
        num_live=int(status.get("active") or 0) + int(status.get("terminating") or 0),
        gateway_address=_gateway_address(job),
        warning=warning,
    )


def attempt_of(job: Manifest) -> int:
    """By its name, which nobody can change."""
    return int(name_of(job).rpartition("-")[2])


def _gateway_address(job: Manifest) -> str | None:
    containers = job["spec"]["template"]["spec"]["containers"]
    variables = (variable for container in containers for variable in container.get("env") or ())
    told = next((variable["value"] for variable in variables if variable["name"] == ENV_GATEWAY_URL), "")
    return urlsplit(told).hostname


def _condition(status: Manifest, kind: str) -> Mapping[str, Any]:
    """The condition if it is true, else nothing."""
    found = find_condition(status, kind)
    return found if found.get("status") == "True" else {}
