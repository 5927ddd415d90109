"""A pool as the page draws it: a cell for each sandbox, what it waits for, and how long each stage takes. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from sweyard_operator.plan.failures import find_end, find_trouble
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.plan.stage_times import STAGES, stage_seconds

_SHOWN_STAGES = STAGES[:-1]
"""How long holders keep a sandbox says nothing of the pool."""
_REASON_CHARACTERS = 300


def pool_line(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Of a RolloutPool as the API server has it."""
    status = pool.get("status") or {}
    counts = {name: int(status.get(name, 0)) for name in ("replicas", "ready", "claimed", "starting", "demand")}
    degraded = _condition(status, "Degraded")
    return {
        "where": pool["metadata"]["namespace"],
        "name": pool["metadata"]["name"],
        "cap": int(pool["spec"].get("replicas", 0)),
        "health": str(degraded.get("reason", "not seen by the operator yet")),
        **counts,
    }


def pool_view(pool: Mapping[str, Any], pods: Iterable[SandboxPod], now: datetime) -> dict[str, Any]:
    """All sandboxes in the order of their slots."""
    ordered = sorted(pods, key=lambda pod: pod.slot)
    status = pool.get("status") or {}
    cells = [cell_of(pod, now) for pod in ordered]
    told = [str(found.get("message", "")) for kind in ("Degraded", "Ready") if (found := _condition(status, kind))]
    return {
        **pool_line(pool),
        "cells": cells,
        "stages": stage_medians(ordered),
        "failures": [*current_failures(cells), *past_failures(status)],
        "message": next(filter(None, told), ""),
    }


def cell_of(pod: SandboxPod, now: datetime) -> dict[str, Any]:
    """One sandbox, with the time since it came into its state."""
    trouble = find_end(pod) or find_trouble(pod)
    state, since = state_of(pod)
    return {
        "id": pod.name,
        "state": state,
        "image": pod.image,
        "node": pod.node,
        "holder": pod.holder,
        "seconds": max(0.0, (now - since).total_seconds()),
        "reason": f"{trouble.reason}: {trouble.message[:_REASON_CHARACTERS]}" if trouble else "",
        "kind": trouble.reason if trouble else "",
    }


def state_of(pod: SandboxPod) -> tuple[str, datetime]:
    """A word, and since when it is true as far as the API server tells."""
    if pod.is_terminating:
        return "ending", pod.deletion_due_at or pod.created_at
    if pod.has_ended:
        return "failed", pod.ended_at or pod.created_at
    if pod.release:
        return "resetting", pod.claimed_at or pod.created_at
    if pod.holder:
        return "claimed", pod.claimed_at or pod.created_at
    if pod.is_ready:
        return "ready", pod.ready_changed_at or pod.created_at
    for state, since in (("starting", pod.started_at), ("pulling", pod.networked_at), ("networking", pod.scheduled_at)):
        if since is not None:
            return state, since
    return "scheduling", pod.created_at


def stage_medians(pods: Sequence[SandboxPod]) -> list[tuple[str, float]]:
    """(stage, seconds) of the sandboxes that are there; a stage that none has behind it is left out."""
    spans = [stage_seconds(pod) for pod in pods]
    known = {stage: [span[stage] for span in spans if stage in span] for stage in _SHOWN_STAGES}
    return [(stage, median(seconds)) for stage, seconds in known.items() if seconds]


def current_failures(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """(reason and node, how many), of sandboxes that are there."""
    found = Counter(f"{cell['kind']} on {cell['node'] or 'no node yet'}" for cell in cells if cell["kind"])
    return found.most_common()


def past_failures(status: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(reason, how many), of sandboxes that were replaced."""
    failures: Mapping[str, int] = status.get("failures") or {}
    return [(f"{reason}, replaced since the pool was made", count) for reason, count in failures.items()]


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((found for found in status.get("conditions") or () if found["type"] == kind), {})
