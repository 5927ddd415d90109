"""PodDisruptionBudgets: a drain takes one pod of a component at a time.

While a rank that was evicted has the time of its grace period, the others stay to write the checkpoint with it; and the
engines never all go at once. Counted in pods that must stay, for a Job has no scale that a share could be taken of.
"""

from sweyard_api.constants import engine_name, trainer_name
from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.run_context import (
    COMPONENT_ENGINE,
    COMPONENT_TRAINER,
    RunContext,
    owned_metadata,
    pod_selector,
)
from sweyard_operator.resources import Manifest


def build_disruption_budgets(run: RunContext) -> list[Manifest]:
    """Of trainer and engines, where they have more than one pod: one alone could only be held for ever."""
    components = [(COMPONENT_TRAINER, trainer_name(run.name), run.trainer_replicas)]
    if run.has_engines:
        components.append((COMPONENT_ENGINE, engine_name(run.name), engine_pods(run, run.config.inference.replicas)))
    return [_build_budget(run, component, name, pods) for component, name, pods in components if pods > 1]


def _build_budget(run: RunContext, component: str, name: str, num_pods: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": owned_metadata(run, name, component),
        "spec": {
            "minAvailable": num_pods - 1,
            # Pods that do not run yet, or any more, have nothing to save and hold up no drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pod_selector(run, component)},
        },
    }
