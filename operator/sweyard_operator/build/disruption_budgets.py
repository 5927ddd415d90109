"""PodDisruptionBudgets: a drain takes one pod of a component at a time.

While a rank that was evicted has the time of its grace period, the others stay to write the checkpoint with it; and the
engines never all go at once. Of the trainer those that must stay are counted, for a Job has no scale that others could
be counted by; of the engines those that may go, for with inference.scaling there are seldom as many as there may be.
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
    budgets = []
    if run.trainer_replicas > 1:
        stay = {"minAvailable": run.trainer_replicas - 1}
        budgets.append(_build_budget(run, COMPONENT_TRAINER, trainer_name(run.name), stay))
    if run.has_engines and engine_pods(run, run.config.inference.replicas) > 1:
        budgets.append(_build_budget(run, COMPONENT_ENGINE, engine_name(run.name), {"maxUnavailable": 1}))
    return budgets


def _build_budget(run: RunContext, component: str, name: str, bound: dict[str, int]) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": owned_metadata(run, name, component),
        "spec": {
            **bound,
            # Pods that do not run yet, or any more, have nothing to save and hold up no drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pod_selector(run, component)},
        },
    }
