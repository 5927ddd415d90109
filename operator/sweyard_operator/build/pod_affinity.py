"""Which pods a component's pods lie beside, and which they keep away from."""

from typing import Any

from sweyard_api.constants import LABEL_COMPONENT, LABEL_RUN
from sweyard_api.pod_options import PodOptions
from sweyard_operator.build.run_context import (
    COMPONENT_ENGINE,
    COMPONENT_TRAINER,
    LABEL_RUN_UID,
    RunContext,
    pod_selector,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build_affinity(run: RunContext, component: str, options: PodOptions) -> dict[str, Any]:
    """core/v1 Affinity; empty where nothing is asked for.

    The scheduler lets the first pod of a component choose the domain, since no pod is there yet that it must follow.
    """
    affinity: dict[str, Any] = {}
    if options.topology_key is not None:
        own = {"labelSelector": {"matchLabels": pod_selector(run, component)}, "topologyKey": options.topology_key}
        affinity["podAffinity"] = {_REQUIRED: [own]}
    if options.exclusive_nodes:
        affinity["podAntiAffinity"] = {_REQUIRED: [_others(run)]}
    return affinity


def _others(run: RunContext) -> dict[str, Any]:
    """Pods of other runs that compute, in all namespaces."""
    return {
        "labelSelector": {
            "matchExpressions": [
                {"key": LABEL_COMPONENT, "operator": "In", "values": [COMPONENT_TRAINER, COMPONENT_ENGINE]},
                {"key": LABEL_RUN, "operator": "Exists"},
                {"key": LABEL_RUN_UID, "operator": "NotIn", "values": [run.uid]},
            ]
        },
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
