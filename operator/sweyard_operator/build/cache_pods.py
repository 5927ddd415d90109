"""Children of an ImageCache in mode `pods`: unprivileged pods whose containers hold the images on their node.

No host socket, no privilege. What it cannot do: evict, know bytes, limit pulls, pull in an order of its own, or notice
what somebody removes from a node by hand. Images are containers rather than image volumes (KEP-4639): a kubelet says of
each container what became of its image, and of a volume only that the pod waits.

A container need not run to hold its image: kubelets remove no image of a container that there is, and of those that
ended they keep the last as long as its pod. So one whose image has no shell, which cannot start, is not tried again.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from sweyard_api.constants import LABEL_CACHE, LABEL_COMPONENT
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.observe.image_cache import ANNOTATION_NODE, LABEL_HOLDS
from sweyard_operator.resources import Manifest, name_of, owner_reference

COMPONENT = "cache-holder"
IMAGES_PER_POD = 16


def build_holding_pods(cache: Manifest, spec: ImageCacheSpec, node: str, images: Sequence[str]) -> list[dict[str, Any]]:
    """Pods for one node, each named by what it holds and pulls with, so that what changes makes other pods."""
    chunks = [tuple(images[i : i + IMAGES_PER_POD]) for i in range(0, len(images), IMAGES_PER_POD)]
    return [_build_pod(cache, spec, node, chunk) for chunk in chunks]


def _build_pod(cache: Manifest, spec: ImageCacheSpec, node: str, images: tuple[str, ...]) -> dict[str, Any]:
    said = [node, *images, "", *spec.pull_secrets]
    digest = blake2b("\0".join(said).encode(), digest_size=6).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name_of(cache)}-hold-{digest}",
            "namespace": cache["metadata"]["namespace"],
            "labels": {LABEL_CACHE: name_of(cache), LABEL_COMPONENT: COMPONENT, LABEL_HOLDS: digest},
            "annotations": {ANNOTATION_NODE: node},
            "ownerReferences": [owner_reference(cache)],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            # By affinity, not nodeName: the scheduler still respects what the node has left. Taints, as agents, none.
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _on(node)}},
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in spec.pull_secrets],
            "containers": [_build_container(i, image) for i, image in enumerate(images)],
        },
    }


def _on(node: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def _build_container(index: int, image: str) -> dict[str, Any]:
    return {
        "name": f"image-{index}",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", "while sleep 3600; do :; done"],
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
