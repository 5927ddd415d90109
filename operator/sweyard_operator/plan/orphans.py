"""Pods whose owner somebody deleted without them, or took from the run: nobody would ever end them.

Of the trainer they are ended at once, with the time of a checkpoint, since the next attempt waits for them. Engines and
the gateway serve until the owner that is made anew adopts them, and are ended when a run lets go.
"""

from sweyard_api.constants import engine_name, gateway_name
from sweyard_operator.build.run_context import COMPONENT_ENGINE, COMPONENT_GATEWAY, COMPONENT_TRAINER
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import DEPLOYMENTS, PODS, STATEFUL_SETS


def plan_orphans(snapshot: RunSnapshot) -> tuple[Deletion, ...]:
    """Of the trainer: those of an attempt of which the run has no Job."""
    attempts = {job.attempt for job in snapshot.jobs}
    return _deletions(snapshot, [pod for pod in snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt not in attempts])


def plan_server_orphans(snapshot: RunSnapshot) -> tuple[Deletion, ...]:
    """Of engines and gateway."""
    owners = (
        (STATEFUL_SETS, engine_name(snapshot.name), COMPONENT_ENGINE),
        (DEPLOYMENTS, gateway_name(snapshot.name), COMPONENT_GATEWAY),
    )
    gone = [component for resource, name, component in owners if snapshot.owned(resource, name) is None]
    return _deletions(snapshot, [pod for component in gone for pod in snapshot.pods_of(component)])


def _deletions(snapshot: RunSnapshot, pods: list[PodState]) -> tuple[Deletion, ...]:
    return tuple(
        Deletion(PODS, snapshot.namespace, pod.name, pod.uid) for pod in pods if pod.is_live and not pod.is_terminating
    )
