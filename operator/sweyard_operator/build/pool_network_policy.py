"""The NetworkPolicy of a pool: sandboxes are reached by nobody and reach nothing but gateways."""

from typing import Any

from sweyard_api.constants import GATEWAY_PORT, LABEL_COMPONENT, LABEL_POOL
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.sandbox_pod import sandbox_labels
from sweyard_operator.resources import Manifest, name_of, namespace_of, owner_reference


def build_network_policy(owner: Manifest, spec: RolloutPoolSpec) -> Manifest:
    """Default deny both ways, with the pool's exceptions. Exec streams come through the kubelet and need none."""
    egress: list[dict[str, Any]] = []
    if spec.network.allow_gateway:
        gateways = {"podSelector": {"matchLabels": {LABEL_COMPONENT: "gateway"}}}
        egress.append({"to": [gateways], "ports": [{"protocol": "TCP", "port": GATEWAY_PORT}]})
    if spec.network.egress_cidrs:
        egress.append({"to": [{"ipBlock": {"cidr": cidr}} for cidr in spec.network.egress_cidrs]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{name_of(owner)}-sandboxes",
            "namespace": namespace_of(owner),
            "labels": {LABEL_POOL: name_of(owner), LABEL_COMPONENT: "sandbox"},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {
            "podSelector": {"matchLabels": sandbox_labels(name_of(owner))},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": egress,
        },
    }
