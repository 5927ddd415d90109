"""`maxGPUHours`: what the run's pods hold is counted into the status, told when it runs low, and stopped.

The count is the integral of GPUs over time, each stretch with the GPUs that were held when it began. It is carried in
the status alone, so an operator that was away counts its absence as well.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sweyard_api.training_run import GpuUsage
from sweyard_operator.conditions import Condition, parse_time, rfc3339
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.plan.reasons import ConditionType, Reason

_COUNT_EVERY = timedelta(seconds=60)
_LOW_FRACTION = 0.9
_SECONDS_PER_HOUR = 3_600.0


def count_usage(status: Mapping[str, Any], pods: Iterable[PodState], now: datetime) -> GpuUsage | None:
    """The record to keep: the old one until GPUs change or a minute is over; None while no GPU was ever held."""
    gpus = sum(pod.gpus for pod in pods if pod.node and pod.is_live)
    recorded = _recorded(status)
    if recorded is None:
        return GpuUsage(gpus=gpus, counted_at=rfc3339(now)) if gpus else None
    is_due = recorded.gpus > 0 and now - parse_time(recorded.counted_at) >= _COUNT_EVERY
    if gpus == recorded.gpus and not is_due:
        return recorded
    return GpuUsage(gpu_hours=round(spent_hours(recorded, now), 6), gpus=gpus, counted_at=rfc3339(now))


def _recorded(status: Mapping[str, Any]) -> GpuUsage | None:
    usage = status.get("usage")
    return None if usage is None else GpuUsage.model_validate(usage)


def spent_hours(usage: GpuUsage, now: datetime) -> float:
    """GPU hours until now."""
    held_seconds = max(0.0, (now - parse_time(usage.counted_at)).total_seconds())
    return usage.gpu_hours + usage.gpus * held_seconds / _SECONDS_PER_HOUR


def seconds_left(usage: GpuUsage | None, max_gpu_hours: float | None, now: datetime) -> float | None:
    """Until the budget is spent at the present rate, 0 when it is; None for never."""
    if usage is None or max_gpu_hours is None:
        return None
    hours_left = max_gpu_hours - spent_hours(usage, now)
    if hours_left <= 0:
        return 0.0
    return hours_left * _SECONDS_PER_HOUR / usage.gpus if usage.gpus else None


def plan_budget(usage: GpuUsage | None, max_gpu_hours: float | None) -> list[Condition]:
    """GPUBudgetLow, by the count as it is written, so that the sentence does not change at every pass."""
    if max_gpu_hours is None:
        return []
    spent = usage.gpu_hours if usage is not None else 0.0
    if spent < _LOW_FRACTION * max_gpu_hours:
        message = f"less than {_LOW_FRACTION:.0%} of maxGPUHours ({max_gpu_hours:g}) are spent"
        return [Condition(ConditionType.GPU_BUDGET_LOW, "False", Reason.WITHIN_BUDGET, message)]
    gpus = usage.gpus if usage is not None else 0
    left = f", the rest lasts {(max_gpu_hours - spent) * 60 / gpus:.0f} minutes at {gpus} GPUs" if gpus else ""
    message = (
        f"{spent:.1f} of maxGPUHours ({max_gpu_hours:g}) are spent{left}; then the run fails after a checkpoint: raise "
        "maxGPUHours, which may change at any time"
    )
    return [Condition(ConditionType.GPU_BUDGET_LOW, "True", Reason.GPU_BUDGET_LOW, message)]
