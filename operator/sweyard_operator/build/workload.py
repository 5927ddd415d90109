"""A run in a Kueue queue: one Workload with all its pods, so that it is admitted whole or not at all.

Its children carry no queue label of their own: they are made only once it is admitted, and are not queued again.
"""

from collections.abc import Mapping
from typing import Any

from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.gateway import build_gateway
from sweyard_operator.build.run_context import (
    COMPONENT_ENGINE,
    COMPONENT_GATEWAY,
    COMPONENT_SANDBOX,
    COMPONENT_TRAINER,
    RunContext,
    RunSettings,
    owned_metadata,
)
from sweyard_operator.build.sandbox_pod import build_sandbox_template
from sweyard_operator.build.trainer_job import build_trainer_job
from sweyard_operator.plan.queue_priority import QueuePriority
from sweyard_operator.resources import WORKLOADS, Manifest


def build_workload(run: RunContext, settings: RunSettings, queue: str, priority: QueuePriority | None) -> Manifest:
    """The Workload of the whole run."""
    spec: dict[str, Any] = {"queueName": queue, "podSets": build_pod_sets(run, settings)}
    if priority is not None:
        group, kind = priority.resource.api_version.partition("/")[0], priority.resource.kind
        reference = {"group": group, "kind": kind, "name": priority.name}
        spec |= {"priority": priority.value, "priorityClassRef": reference}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": owned_metadata(run, run.name),
        "spec": spec,
    }


def build_pod_sets(run: RunContext, settings: RunSettings) -> list[dict[str, Any]]:
    """Trainer, engines, gateway and sandboxes, as far as they are the run's own, each with as many as it may have."""
    job = build_trainer_job(run, settings, attempt=0, restarts=0, gateway_ip=None)
    sets = [_pod_set(COMPONENT_TRAINER, run.trainer_replicas, job["spec"]["template"])]
    if run.has_engines:
        engines = build_engines(run, settings)["spec"]
        sets.append(_pod_set(COMPONENT_ENGINE, engines["replicas"], engines["template"]))
    if run.has_gateway:
        gateway = build_gateway(run, settings)["spec"]
        sets.append(_pod_set(COMPONENT_GATEWAY, gateway["replicas"], gateway["template"]))
    if run.owns_pool:
        template = build_sandbox_template(run.config.sandboxes, settings.image(None))
        sets.append(_pod_set(COMPONENT_SANDBOX, run.config.sandboxes.replicas, template))
    return sets


def _pod_set(name: str, count: int, template: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "count": count, "template": template}
