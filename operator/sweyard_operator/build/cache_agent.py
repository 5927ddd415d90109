"""Children of an ImageCache in mode `agent`: one privilege (the runtime's socket), one pod per node, two ConfigMaps."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sweyard_api.constants import LABEL_CACHE, LABEL_COMPONENT
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.cache_agent.envelope import seal
from sweyard_operator.cache_agent.protocol import AGENT_COMPONENT, ASSIGNMENT_KEY, Assignment, assignment_name
from sweyard_operator.observe.image_cache import ANNOTATION_NODE, LABEL_ROLE, ROLE_ASSIGNMENT
from sweyard_operator.resources import Manifest, name_of, owner_reference

CLUSTER_ROLE_CACHE_AGENT = "sweyard-cache-agent"
PULL_SECRETS_PATH = "/pull-secrets"


@dataclass(frozen=True, slots=True)
class AgentHost:
    """What the installation says of all agents."""

    image: str
    runtime_socket: str
    """Of CRI, on every node."""


def agent_name(cache: str) -> str:
    """DaemonSet, ServiceAccount and RoleBinding of a cache's agents."""
    return f"{cache}-cache-agent"


def build_agent_children(cache: Manifest, spec: ImageCacheSpec, host: AgentHost) -> list[dict[str, Any]]:
    """ServiceAccount, RoleBinding and DaemonSet."""
    name = agent_name(name_of(cache))
    subject = {"kind": "ServiceAccount", "name": name, "namespace": cache["metadata"]["namespace"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE_CACHE_AGENT}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
    return [
        {**account, "metadata": _metadata(cache, name)},
        {**rbac, "metadata": _metadata(cache, name)},
        _build_daemon_set(cache, spec, host),
    ]


def build_assignment(cache: Manifest, node: str, assignment: Assignment) -> dict[str, Any]:
    """ConfigMap that tells one node's agent what to hold."""
    metadata = _metadata(cache, assignment_name(name_of(cache), node))
    metadata["labels"][LABEL_ROLE] = ROLE_ASSIGNMENT
    metadata["annotations"] = {ANNOTATION_NODE: node}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        **seal(ASSIGNMENT_KEY, assignment.model_dump_json(exclude_defaults=True)),
    }


def _metadata(cache: Manifest, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": cache["metadata"]["namespace"],
        "labels": {LABEL_CACHE: name_of(cache), LABEL_COMPONENT: AGENT_COMPONENT},
        "ownerReferences": [owner_reference(cache)],
    }


def _build_daemon_set(cache: Manifest, spec: ImageCacheSpec, host: AgentHost) -> dict[str, Any]:
    labels = {LABEL_CACHE: name_of(cache), LABEL_COMPONENT: AGENT_COMPONENT}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(cache, agent_name(name_of(cache))),
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": labels}, "spec": _build_pod_spec(cache, spec, host)},
        },
    }


def _build_pod_spec(cache: Manifest, spec: ImageCacheSpec, host: AgentHost) -> dict[str, Any]:
    # The directory, not the socket file: a restarted runtime makes a new one.
    directory = str(PurePosixPath(host.runtime_socket).parent)
    secrets = [
        {"name": f"secret-{i}", "secret": {"secretName": name, "optional": True}}
        for i, name in enumerate(spec.pull_secrets)
    ]
    mounts = [
        {"name": f"secret-{i}", "mountPath": f"{PULL_SECRETS_PATH}/{name}", "readOnly": True}
        for i, name in enumerate(spec.pull_secrets)
    ]
    return {
        "serviceAccountName": agent_name(name_of(cache)),
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "nodeSelector": dict(spec.node_selector),
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {
                "name": "agent",
                "image": host.image,
                "command": ["python", "-m", "sweyard_operator.cache_agent"],
                "env": [
                    {"name": "SWEYARD_CACHE", "value": name_of(cache)},
                    {"name": "SWEYARD_CACHE_UID", "value": cache["metadata"]["uid"]},
                    {"name": "SWEYARD_CRI_SOCKET", "value": host.runtime_socket},
                    {"name": "SWEYARD_PULL_SECRETS", "value": PULL_SECRETS_PATH},
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                ],
                "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                # Root, since the socket belongs to root; nothing else of root's is left.
                "securityContext": {
                    "runAsUser": 0,
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumeMounts": [{"name": "runtime", "mountPath": directory}, *mounts],
            }
        ],
        "volumes": [
            {"name": "runtime", "hostPath": {"path": directory, "type": "Directory"}},
            *secrets,
        ],
        "tolerations": [{"operator": "Exists"}],
    }
