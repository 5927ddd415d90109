"""The pod of one sandbox.

It only idles: commands come in through exec streams that clients open. Its shell is process 1, so it reaps the orphans
that commands leave behind. As process 1 it would ignore SIGTERM; the trap makes deletion quick.
"""

import hashlib
import json
import math
from typing import Any

from sweyard_api.base import ResourceRequirements
from sweyard_api.constants import (
    ANNOTATION_HOLDER,
    ANNOTATION_IMAGE,
    ANNOTATION_TEMPLATE_HASH,
    CONTAINER_SANDBOX,
    EXIT_CODE_SANDBOX_TERMINATED,
    LABEL_COMPONENT,
    LABEL_POOL,
)
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.overrides import merge_pod_spec
from sweyard_operator.build.reset_check import with_check
from sweyard_operator.build.resolver import DNS_CONFIG
from sweyard_operator.plan.quantities import parse_quantity
from sweyard_operator.plan.sandbox import GRACE_SECONDS
from sweyard_operator.plan.slots import pod_name
from sweyard_operator.resources import Manifest, name_of, namespace_of, owner_reference

LABEL_LANE = "sweyard.dev/lane"
"""slot modulo spec.maxPerNode: pods of one lane keep off each other's nodes, so no node holds more than the limit."""

KEEP_ALIVE = f"trap 'exit {EXIT_CODE_SANDBOX_TERMINATED}' TERM INT; while :; do sleep 86400 & wait $!; done"
"""The first process of a sandbox, for /bin/sh."""
_LIMITS = {"memory": "4Gi", "ephemeral-storage": "8Gi"}
_REQUESTED_DISK = "1Gi"
_ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
"""What root in a task image needs to be root of its own files and to run tests as another user; all within the
baseline pod security level, none that reaches beyond the container."""
_THREAD_CAPS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("RAYON_NUM_THREADS", "GOMAXPROCS", "UV_THREADPOOL_SIZE", "PYTHON_CPU_COUNT", "PYTEST_XDIST_AUTO_NUM_WORKERS"),
    *("CARGO_BUILD_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"),
)
_LOST_NODE_SECONDS = 30
_PREFERRED, _REQUIRED = (
    "preferredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingIgnoredDuringExecution",
)


def build_sandbox_pod(
    owner: Manifest,
    spec: RolloutPoolSpec,
    *,
    slot: int,
    image: str,
    template: str | None = None,
    pull_from: str | None = None,
    avoided_nodes: tuple[str, ...] = (),
    preferred_nodes: tuple[str, ...] = (),
    required_nodes: tuple[str, ...] = (),
) -> Manifest:
    """A free sandbox of `image` in a slot; `pull_from` is the image's name at a mirror, `template` the spec's hash for
    who makes many."""
    pod_spec = _build_pod_spec(spec, pull_from or image)
    labels = sandbox_labels(name_of(owner))
    if spec.max_per_node is not None:
        labels[LABEL_LANE] = str(slot % spec.max_per_node)
    affinity = _build_affinity(labels, spec, avoided_nodes, preferred_nodes, required_nodes)
    if affinity:
        pod_spec = merge_pod_spec({"affinity": affinity}, pod_spec)
    if _PREFERRED not in affinity.get("nodeAffinity", {}):
        pod_spec = merge_pod_spec({"topologySpreadConstraints": [_build_spread(name_of(owner))]}, pod_spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name_of(owner), slot),
            "namespace": namespace_of(owner),
            "labels": {**spec.template.labels, **labels},
            "annotations": {
                **spec.template.annotations,
                ANNOTATION_HOLDER: "",
                ANNOTATION_IMAGE: image,
                ANNOTATION_TEMPLATE_HASH: template or template_hash(spec),
            },
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": pod_spec,
    }


def sandbox_labels(pool: str) -> dict[str, str]:
    """Labels by which policies, watches and the scale subresource select the pods of a pool."""
    return {LABEL_POOL: pool, LABEL_COMPONENT: "sandbox"}


def build_sandbox_template(spec: RolloutPoolSpec, image: str) -> dict[str, Any]:
    """PodTemplateSpec of any sandbox of a pool, for who counts what they will need."""
    return {"metadata": {"labels": {LABEL_COMPONENT: "sandbox"}}, "spec": _build_pod_spec(spec, image)}


def template_hash(spec: RolloutPoolSpec) -> str:
    """Changes when free sandboxes must be made anew: with anything in their pods but the image."""
    parts: list[Any] = [_build_pod_spec(spec, ""), spec.max_per_node]
    if spec.template.labels or spec.template.annotations:
        parts += [spec.template.labels, spec.template.annotations]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _build_pod_spec(spec: RolloutPoolSpec, image: str) -> dict[str, Any]:
    template = spec.template
    lost = [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute"}
        | {"tolerationSeconds": _LOST_NODE_SECONDS}
        for state in ("not-ready", "unreachable")
    ]
    pod_spec: dict[str, Any] = {
        "containers": [_build_container(spec, image)],
        "restartPolicy": "Never" if spec.recycle == "never" else "Always",
        "activeDeadlineSeconds": spec.max_lifetime_seconds,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "dnsPolicy": "None",
        "dnsConfig": DNS_CONFIG,
        "tolerations": [*lost, *template.tolerations],
    }
    optional = {
        "runtimeClassName": spec.runtime_class_name,
        "priorityClassName": template.priority_class_name,
        "nodeSelector": template.node_selector,
        "imagePullSecrets": [{"name": secret} for secret in template.image_pull_secrets],
    }
    pod_spec |= {key: value for key, value in optional.items() if value}
    return merge_pod_spec(pod_spec, template.pod_overrides or {})


def _build_container(spec: RolloutPoolSpec, image: str) -> dict[str, Any]:
    resources = _build_resources(spec.template.resources)
    container = {
        "name": CONTAINER_SANDBOX,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", KEEP_ALIVE],
        "env": _build_thread_caps(resources),
        "resources": resources,
        "securityContext": _build_security_context(spec.template.run_as_user),
    }
    return container if spec.recycle == "never" else with_check(container)


def _build_security_context(run_as_user: int | None) -> dict[str, Any]:
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if run_as_user:
        return {**context, "runAsUser": run_as_user, "runAsNonRoot": True}
    context["capabilities"] = {"drop": ["ALL"], "add": _ROOT_CAPABILITIES}
    return context if run_as_user is None else {**context, "runAsUser": 0}


def _build_resources(asked: ResourceRequirements) -> dict[str, dict[str, str]]:
    """As asked; memory and disk are always limited, and the disk request never swallows a node by defaulting to it."""
    requests, limits = dict(asked.requests), dict(asked.limits)
    for resource, limit in _LIMITS.items():
        limits.setdefault(resource, requests.get(resource, limit))
    disk = min(limits["ephemeral-storage"], _REQUESTED_DISK, key=parse_quantity)
    requests.setdefault("ephemeral-storage", disk)
    return {"requests": requests, "limits": limits}


def _build_thread_caps(resources: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    """Tools see the host's cores and would size themselves, and their memory, by them."""
    cpu = resources["limits"].get("cpu") or resources["requests"].get("cpu") or "1"
    count = str(max(1, math.ceil(parse_quantity(cpu))))
    return [{"name": name, "value": count} for name in _THREAD_CAPS] + [{"name": "MAKEFLAGS", "value": f"-j{count}"}]


def _build_spread(pool: str) -> dict[str, Any]:
    """The scheduler does so by itself for a ReplicaSet's pods alone: others with small requests, which no score tells
    apart, all go to one node until it is full, and a node starts only a few pods at a time.

    Only where no node is preferred: to the scheduler an empty node counts as much as one that holds the image.
    """
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": sandbox_labels(pool)},
    }


def _build_affinity(
    labels: dict[str, str],
    spec: RolloutPoolSpec,
    avoided_nodes: tuple[str, ...],
    preferred_nodes: tuple[str, ...],
    required_nodes: tuple[str, ...],
) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if spec.max_per_node is not None:
        others = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAntiAffinity"] = {_REQUIRED: [others]}
    # Preferred, unless the pool requires it: on a cluster of bad nodes a bad node is still better than none, and where
    # the nodes with the image are full, one that must pull it. A field takes one value, so each node has its own term.
    terms = [_prefer("In", (node,)) for node in preferred_nodes]
    if avoided_nodes:
        terms.append(_prefer("NotIn", avoided_nodes))
    chosen = [{"matchFields": [_field("In", node)]} for node in required_nodes]
    preferred = {_PREFERRED: terms} if terms else {}
    required = {_REQUIRED: {"nodeSelectorTerms": chosen}} if chosen else {}
    if preferred or required:
        affinity["nodeAffinity"] = {**required, **preferred}
    return affinity


def _prefer(operator: str, nodes: tuple[str, ...]) -> dict[str, Any]:
    return {"weight": 100, "preference": {"matchFields": [_field(operator, node) for node in nodes]}}


def _field(operator: str, node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": [node]}
