"""Who the trainer is to the API server, and what it may do there."""

from sweyard_api.constants import trainer_name
from sweyard_operator.build.run_context import COMPONENT_TRAINER, RunContext, owned_metadata
from sweyard_operator.resources import Manifest

CLUSTER_ROLE_TRAINER = "sweyard-trainer"
"""Made by the chart: read its run, write its status."""
CLUSTER_ROLE_HOLDER = "sweyard-holder"
"""Made by the chart: hold sandboxes of a pool (leases, demand, claim, exec, delete)."""


def build_service_account(run: RunContext) -> Manifest:
    """ServiceAccount of the trainer pods; the token is mounted only where a pod asks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": owned_metadata(run, trainer_name(run.name), COMPONENT_TRAINER),
        "automountServiceAccountToken": False,
    }


def build_role_bindings(run: RunContext) -> list[Manifest]:
    """RoleBindings of the trainer: its own run and, where sandboxes are pods, its pool."""
    bindings = [_build_binding(run, trainer_name(run.name), CLUSTER_ROLE_TRAINER)]
    if run.has_pool:
        bindings.append(_build_binding(run, holder_binding_name(run.name), CLUSTER_ROLE_HOLDER))
    return bindings


def holder_binding_name(run: str) -> str:
    """RoleBinding that lets a run's trainer hold sandboxes."""
    return f"{run}-holder"


def _build_binding(run: RunContext, name: str, cluster_role: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": owned_metadata(run, name, COMPONENT_TRAINER),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": [{"kind": "ServiceAccount", "name": trainer_name(run.name), "namespace": run.namespace}],
    }
