"""The trainer's pods as a PodGroup, which the scheduler of Kubernetes places whole or not at all.

One for all attempts: two never live at once, and the scheduler does not count pods that have ended.
"""

from typing import Any

from sweyard_api.constants import trainer_name
from sweyard_operator.build.run_context import COMPONENT_TRAINER, RunContext, owned_metadata
from sweyard_operator.resources import POD_GROUPS, Manifest


def build_pod_group(run: RunContext) -> Manifest | None:
    """None where the run does not ask for it."""
    if not run.config.trainer.pod_group:
        return None
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": owned_metadata(run, trainer_name(run.name), COMPONENT_TRAINER),
        "spec": {"schedulingPolicy": {"gang": {"minCount": run.trainer_replicas}}},
    }


def build_scheduling_group(run: RunContext) -> dict[str, Any]:
    """What makes a pod one of the group: a field of its spec."""
    if not run.config.trainer.pod_group:
        return {}
    return {"schedulingGroup": {"podGroupName": trainer_name(run.name)}}
