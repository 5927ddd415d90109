"""A pool's status: counts, latencies and conditions, all from the same census."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sweyard_api.constants import LABEL_COMPONENT, LABEL_POOL
from sweyard_api.rollout_pool import RolloutPoolStatus, StageLatency
from sweyard_operator.conditions import Condition, merge_conditions, moved_conditions
from sweyard_operator.plan.plan import Event
from sweyard_operator.plan.pool_conditions import plan_conditions
from sweyard_operator.plan.pool_figures import Figures
from sweyard_operator.plan.pool_state import Census, ObservedPool
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.plan.stage_times import STAGES, stage_seconds

_SAMPLE_SIZE = 500
_EVENT_TYPES = ("Ready", "Degraded")


def plan_status(observed: ObservedPool, census: Census, figures: Figures, *, now: datetime) -> dict[str, Any]:
    """The operator's whole share of the status, as JSON."""
    generation = int(observed.owner["metadata"]["generation"])
    conditions = plan_conditions(observed, census, figures)
    old = observed.old_status.get("conditions") or ()
    status = RolloutPoolStatus(
        observed_generation=generation,
        replicas=census.total,
        ready=sum(pod.is_ready for pod in census.free),
        claimed=len(census.claimed),
        starting=sum(not pod.is_ready for pod in census.free),
        terminating=len(census.terminating),
        demand=figures.demand,
        failures=dict(sorted(observed.failures.items())),
        recycled=observed.recycled,
        discarded=dict(sorted(observed.discarded.items())),
        latencies=_latencies((*census.free, *census.claimed)),
        warm_start_fraction=_round(observed.warm_start_fraction),
        selector=f"{LABEL_POOL}={observed.name},{LABEL_COMPONENT}=sandbox",
        conditions=merge_conditions(old, conditions, generation=generation, now=now),
    )
    return status.model_dump(mode="json", by_alias=True)


def _round(fraction: float | None) -> float | None:
    return None if fraction is None else round(fraction, 3)


def _latencies(pods: Sequence[SandboxPod]) -> dict[str, StageLatency]:
    """Of the sandboxes that live now (of thousands every n-th), in whole seconds, as the API server's times are."""
    samples: dict[str, list[float]] = {}
    for pod in pods[:: max(1, len(pods) // _SAMPLE_SIZE)]:
        for stage, seconds in stage_seconds(pod).items():
            samples.setdefault(stage, []).append(seconds)
    return {stage: _percentiles(sorted(samples[stage])) for stage in STAGES if stage in samples}


def _percentiles(values: list[float]) -> StageLatency:
    last = len(values) - 1
    return StageLatency(p50_ms=int(values[round(last * 0.5)] * 1_000), p99_ms=int(values[round(last * 0.99)] * 1_000))


def plan_events(old_status: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Event, ...]:
    """One for each question people watch whose answer moved; a new pool that is well says nothing."""
    new = [
        Condition(entry["type"], entry["status"], entry["reason"], entry["message"]) for entry in status["conditions"]
    ]
    old = old_status.get("conditions") or ()
    known = {entry["type"] for entry in old}
    moved = [condition for condition in moved_conditions(old, new) if condition.type in _EVENT_TYPES]
    return tuple(
        Event("Warning" if is_bad(condition) else "Normal", condition.reason, condition.message)
        for condition in moved
        if is_bad(condition) or condition.type in known
    )


def is_bad(condition: Condition) -> bool:
    """Worth a warning."""
    return condition.type == "Degraded" and condition.status == "True"
