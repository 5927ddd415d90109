"""`activeDeadlineSeconds`: how long a run may be active, restarts included, suspensions not."""

from datetime import datetime, timedelta

from sweyard_operator.conditions import parse_time
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.reasons import ConditionType


def deadline(snapshot: RunSnapshot, seconds: int | None) -> datetime | None:
    """When the run fails; a suspension stops the clock, and the end of one starts it anew, as for Jobs."""
    start = snapshot.time("startTime")
    if seconds is None or start is None:
        return None
    suspended = snapshot.condition(ConditionType.SUSPENDED)
    if suspended.get("status") == "True":
        return None
    resumed = parse_time(suspended["lastTransitionTime"]) if suspended else start
    return max(start, resumed) + timedelta(seconds=seconds)
