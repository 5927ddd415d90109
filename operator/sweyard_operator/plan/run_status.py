"""The operator's share of a TrainingRun's status: everything but `trainer`, which is the trainer's own."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sweyard_api.training_run import FailedAttempt, GpuUsage
from sweyard_operator.build.run_context import COMPONENT_TRAINER
from sweyard_operator.conditions import Condition, merge_conditions, moved_conditions, rfc3339
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.failed_attempt import last_failure
from sweyard_operator.plan.gpu_budget import count_usage
from sweyard_operator.plan.plan import Event
from sweyard_operator.plan.progress import copy_progress
from sweyard_operator.plan.reasons import WARNINGS, ConditionType, Reason
from sweyard_operator.plan.restart_policy import Ledger

_UNTOLD = (
    *(Reason.NOT_FINISHED, Reason.NOT_FAILED, Reason.NOT_SUSPENDED, Reason.NOT_NEEDED),
    Reason.WITHIN_BUDGET,
)
"""As everything is at the start: worth no event."""


def recorded_ledger(snapshot: RunSnapshot) -> Ledger:
    """Attempts and restarts as the status shows them."""
    return Ledger(int(snapshot.status.get("attempts") or 0), int(snapshot.status.get("restarts") or 0))


def find_last_failure(snapshot: RunSnapshot) -> FailedAttempt | None:
    """How the last attempt failed, as Jobs, pods and the status together tell it."""
    return last_failure(snapshot.jobs, snapshot.pods_of(COMPONENT_TRAINER), snapshot.status, snapshot.lost_nodes)


def find_usage(snapshot: RunSnapshot, now: datetime) -> GpuUsage | None:
    """The count of GPU hours as it is to be written."""
    return count_usage(snapshot.status, snapshot.pods, now)


def build_status(
    snapshot: RunSnapshot,
    *,
    phase: str,
    conditions: Sequence[Condition],
    ledger: Ledger,
    total_steps: int,
    now: datetime,
    start: datetime | None,
    completion: datetime | None = None,
    placement_failures: int = 0,
) -> dict[str, Any]:
    """The whole share; None removes a field."""
    old = snapshot.status.get("conditions") or ()
    failure = find_last_failure(snapshot)
    usage = find_usage(snapshot, now)
    absent = dict.fromkeys(("estimatedRemainingSeconds", "metrics", "lastCheckpoint"))
    return {
        **absent,
        **copy_progress(snapshot.status, total_steps),
        "observedGeneration": snapshot.generation,
        "phase": phase,
        "attempts": ledger.attempts,
        "restarts": ledger.restarts,
        "placementFailures": placement_failures or None,
        "usage": usage.model_dump(mode="json", by_alias=True) if usage else None,
        "lastFailure": failure.model_dump(mode="json", by_alias=True, exclude_none=True) if failure else None,
        "startTime": rfc3339(start) if start else None,
        "completionTime": rfc3339(completion) if completion else None,
        "conditions": merge_conditions(old, conditions, generation=snapshot.generation, now=now),
    }


def unfinished_conditions() -> list[Condition]:
    """Succeeded and Failed of a run that is not over."""
    return [
        Condition(ConditionType.SUCCEEDED, "False", Reason.NOT_FINISHED, "the run is not over"),
        Condition(ConditionType.FAILED, "False", Reason.NOT_FAILED, "the run has not failed"),
    ]


def not_suspended() -> Condition:
    """Suspended of an active run."""
    return Condition(ConditionType.SUSPENDED, "False", Reason.NOT_SUSPENDED, "spec.suspend is not set")


def kept_conditions(snapshot: RunSnapshot, changed: Iterable[Condition]) -> list[Condition]:
    """The conditions as last written, save for those that changed."""
    replaced = {condition.type: condition for condition in changed}
    old = [
        Condition(entry["type"], entry["status"], entry["reason"], entry["message"])
        for entry in snapshot.status.get("conditions") or ()
    ]
    kept = [replaced.pop(condition.type, condition) for condition in old]
    return [*kept, *replaced.values()]


def transition_events(snapshot: RunSnapshot, conditions: Sequence[Condition]) -> tuple[Event, ...]:
    """One event for each condition whose status or reason changed; nothing about what is as it was at the start."""
    moved = moved_conditions(snapshot.status.get("conditions") or (), conditions)
    return tuple(
        Event(
            "Warning" if _is_bad(condition) else "Normal",
            str(condition.reason),
            f"{condition.type}: {condition.message}",
        )
        for condition in moved
        if condition.reason not in _UNTOLD
    )


def _is_bad(condition: Condition) -> bool:
    return condition.type == ConditionType.FAILED or condition.reason in WARNINGS
