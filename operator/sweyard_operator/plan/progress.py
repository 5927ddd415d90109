"""The trainer's own report, copied to where `kubectl get` prints it, and judged by its age."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sweyard_api.constants import FIELD_MANAGER_TRAINER
from sweyard_operator.conditions import parse_time
from sweyard_operator.resources import Manifest

SILENCE = timedelta(minutes=15)
"""A trainer reports every half a minute, whatever it does; that of an older version once a step takes no longer."""

_COPIED = ("step", "totalSteps", "progressPercentage", "estimatedRemainingSeconds", "metrics", "lastCheckpoint")


def copy_progress(status: Mapping[str, Any], total_steps: int) -> dict[str, Any]:
    """Fields of the status that mirror `status.trainer`; `total_steps` holds until it says so itself."""
    report = status.get("trainer") or {}
    copied = {name: report[name] for name in _COPIED if report.get(name) is not None}
    return {"step": 0, "totalSteps": total_steps, "progressPercentage": 0, **copied}


def silent_since(run: Manifest, attempt: int, now: datetime) -> datetime | None:
    """When this attempt's trainer last reported, if that is too long ago.

    By the API server's clock, as it notes who wrote what: that of the trainer's node may be wrong by any amount.
    """
    report = (run.get("status") or {}).get("trainer") or {}
    writes = [
        parse_time(entry["time"])
        for entry in run["metadata"].get("managedFields") or ()
        if entry.get("manager") == FIELD_MANAGER_TRAINER and "time" in entry
    ]
    if report.get("attempt") != attempt or not writes:
        return None
    return max(writes) if now - max(writes) > SILENCE else None


def has_reported_its_end(status: Mapping[str, Any], attempt: int) -> bool:
    """Whether this attempt's trainer says that all work is done."""
    report = status.get("trainer") or {}
    return report.get("attempt") == attempt and report.get("phase") == "finished"


def is_evaluating(status: Mapping[str, Any], attempt: int) -> bool:
    """Whether this attempt's trainer says that it evaluates."""
    report = status.get("trainer") or {}
    return report.get("attempt") == attempt and report.get("phase") == "evaluating"
