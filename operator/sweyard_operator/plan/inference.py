"""Engines and gateway: whether anybody answers a prompt."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sweyard_api.constants import engine_name, gateway_name
from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.run_context import COMPONENT_ENGINE, COMPONENT_GATEWAY, RunContext
from sweyard_operator.conditions import find_condition
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.engine_count import fewest_engines
from sweyard_operator.plan.pod_troubles import failed_create, summarize_troubles
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.stage import NOTHING_ATTEMPTED, Stage
from sweyard_operator.resources import DEPLOYMENTS, STATEFUL_SETS, Manifest

_KIND = ConditionType.INFERENCE_READY


def plan_inference(run: RunContext, snapshot: RunSnapshot, now: datetime) -> Stage:
    """InferenceReady: every engine and the gateway serve, or why not."""
    if not run.makes_attempts:
        return Stage(_KIND, True, Reason.NOT_NEEDED, NOTHING_ATTEMPTED)
    if not run.has_gateway:
        return Stage(_KIND, True, Reason.EMBEDDED, "the trainer generates by itself; there is no server")
    waiting = _engines_wait(run, snapshot, now) if run.has_engines else None
    return waiting or _gateway_waits(run, snapshot) or _serving(run)


def find_user_fault(snapshot: RunSnapshot) -> str | None:
    """What an engine or gateway pod said that could not use the config (exit code 2 of its model preparation)."""
    pods = [*snapshot.pods_of(COMPONENT_ENGINE), *snapshot.pods_of(COMPONENT_GATEWAY)]
    return next((pod.user_fault for pod in pods if pod.user_fault is not None), None)


def _serving(run: RunContext) -> Stage:
    inference = run.config.inference
    if inference.placement == "external":
        return Stage(_KIND, True, Reason.EXTERNAL, f"the gateway serves from {inference.url}")
    if inference.placement == "colocated":
        return Stage(_KIND, True, Reason.COLOCATED, "the gateway serves; engines start inside the trainer's pods")
    most = inference.replicas
    engines = "1 engine" if most == 1 else f"{most} engines"
    if inference.scaling is not None:
        engines = f"{inference.scaling.min_replicas} to {most} engines, as the attempts under way need,"
    return Stage(_KIND, True, Reason.READY, f"{engines} and the gateway serve")


def _engines_wait(run: RunContext, snapshot: RunSnapshot, now: datetime) -> Stage | None:
    inference, name = run.config.inference, engine_name(run.name)
    wanted = engine_pods(run, fewest_engines(inference))
    owner = snapshot.owned(STATEFUL_SETS, name)
    pods = [pod for pod in snapshot.pods_of(COMPONENT_ENGINE) if not pod.is_terminating]
    ready = sum(pod.is_ready for pod in pods)
    if owner is not None and ready >= wanted:
        return None
    late = _late_engine(pods, inference.startup_deadline_seconds, now)
    what = "engines" if inference.pods_per_engine == 1 else "pods of engines"
    progress = f"{ready} of {wanted} {what} ready{_last_end(pods)}"
    return _waiting(snapshot, owner, pods, wanted, "inference", progress, late)


def _last_end(pods: Sequence[PodState]) -> str:
    """What an engine died of that loads again: it may do nothing else, and is seldom seen while it is dead."""
    again = next((pod for pod in pods if pod.ended_before is not None and not pod.is_ready), None)
    if again is None:
        return ""
    return f"; {again.name} starts again: {again.ended_before}; see kubectl logs {again.name} --previous"


def _late_engine(pods: Sequence[PodState], deadline_seconds: int, now: datetime) -> Stage | None:
    late = [pod for pod in pods if not pod.is_ready and now - pod.created > timedelta(seconds=deadline_seconds)]
    if not late:
        return None
    message = (
        f"{late[0].name} has not loaded within inference.startupDeadlineSeconds ({deadline_seconds}); "
        f"see kubectl logs {late[0].name} --all-containers, or raise the deadline"
    )
    return Stage(_KIND, False, Reason.STARTUP_DEADLINE, message)


def _gateway_waits(run: RunContext, snapshot: RunSnapshot) -> Stage | None:
    owner = snapshot.owned(DEPLOYMENTS, gateway_name(run.name))
    pods = [pod for pod in snapshot.pods_of(COMPONENT_GATEWAY) if not pod.is_terminating]
    if owner is not None and any(pod.is_ready for pod in pods):
        return None
    return _waiting(snapshot, owner, pods, 1, "trainer", "the gateway is not ready yet", None)


def _waiting(
    snapshot: RunSnapshot,
    owner: Manifest | None,
    pods: Sequence[PodState],
    wanted: int,
    field: str,
    progress: str,
    late: Stage | None,
) -> Stage:
    trouble = summarize_troubles(pods, wanted, field)
    if trouble is not None:
        return Stage(_KIND, False, trouble.reason, trouble.message)
    if late is not None:
        return late
    warning = _refused_pods(snapshot, owner) if owner is not None else None
    if warning is not None and len(pods) < wanted:
        refused = failed_create(warning, field)
        return Stage(_KIND, False, refused.reason, refused.message)
    return Stage(_KIND, False, Reason.STARTING, progress)


def _refused_pods(snapshot: RunSnapshot, owner: Manifest) -> str | None:
    """Why its pods were not made: an event tells it, or of a Deployment, whose ReplicaSet has those, a condition."""
    failure = find_condition(owner.get("status"), "ReplicaFailure")
    told = str(failure["message"]) if failure.get("status") == "True" else None
    return snapshot.warnings.get(owner["metadata"]["uid"]) or told
