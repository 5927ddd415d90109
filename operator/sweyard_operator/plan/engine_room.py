"""Engines that span pods and have nodes for some of these only: of what such a half holds nobody gets anything.

Two halves could wait for each other's nodes for ever, be they of one run or of two. So beyond the fewest the engine
with the highest number goes once halves have waited for placementDeadlineSeconds. What it held may make another one
whole; it is tried again after a pause that differs from run to run.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sweyard_api.constants import engine_name
from sweyard_api.json_pointer import annotation_path
from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.run_context import ANNOTATION_ENGINE_LET_GO, COMPONENT_ENGINE
from sweyard_operator.conditions import parse_time, rfc3339
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.plan.pause import pause_seconds
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.resources import STATEFUL_SETS, Manifest, annotations_of

_TRIES = 5
"""That the pause is as long as after: what goes is more than the run needs."""


def engines_placed(work: RunPass) -> int:
    """Engines that have nodes for all of their pods."""
    whole = engine_pods(work.run, 1)
    return sum(len(_placed(pods)) == whole for pods in _pods_by_engine(work).values())


def find_room(work: RunPass, present: int, fewest: int) -> int | None:
    """The most engines that there may be, with `present` of them now; None while nothing is known against more."""
    live = work.snapshot.owned(STATEFUL_SETS, engine_name(work.run.name))
    told = annotations_of(live).get(ANNOTATION_ENGINE_LET_GO) if live is not None else None
    let_go_at = parse_time(told) if told is not None else None
    if present > fewest and _waits_in_vain(work, present - 1, let_go_at):
        return present - 1
    if let_go_at is None:
        return None
    pause = timedelta(seconds=pause_seconds(f"{work.snapshot.uid}/{told}", _TRIES))
    return present if work.now < let_go_at + pause else None


def note_engine_let_go(live: Manifest, now: datetime) -> tuple[dict[str, Any], ...]:
    """Operations of a JSON patch of the StatefulSet, for the moment when find_room has an engine go."""
    if not annotations_of(live):
        return ({"op": "add", "path": "/metadata/annotations", "value": {ANNOTATION_ENGINE_LET_GO: rfc3339(now)}},)
    return ({"op": "add", "path": annotation_path(ANNOTATION_ENGINE_LET_GO), "value": rfc3339(now)},)


def _waits_in_vain(work: RunPass, last: int, let_go_at: datetime | None) -> bool:
    """Whether the last engine has waited for too long, and it or another holds nodes meanwhile. One that goes gives
    those that stay their time anew."""
    deadline = timedelta(seconds=work.run.config.placement_deadline_seconds)

    def is_late(pods: Sequence[PodState]) -> bool:
        since = [pod.created for pod in pods if pod.is_unschedulable and not pod.is_terminating]
        return bool(since) and work.now - max(min(since), let_go_at or min(since)) >= deadline

    late = {engine: pods for engine, pods in _pods_by_engine(work).items() if is_late(pods)}
    return last in late and any(_placed(pods) for pods in late.values())


def _pods_by_engine(work: RunPass) -> dict[int, list[PodState]]:
    engines: dict[int, list[PodState]] = defaultdict(list)
    for pod in work.snapshot.pods_of(COMPONENT_ENGINE):
        engines[int(pod.name.rpartition("-")[2]) // engine_pods(work.run, 1)].append(pod)
    return engines


def _placed(pods: Sequence[PodState]) -> list[PodState]:
    return [pod for pod in pods if pod.node and not pod.is_terminating]
