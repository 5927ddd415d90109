"""What the caches keep is all that the controllers read."""

from typing import Any

import pytest

from sweyard_operator.observe.pod_state import read_pod
from sweyard_operator.observe.sandbox_pods import parse_pod
from sweyard_operator.plan.image_reports import reports_of_pods
from sweyard_operator.slim import slim

TIME = "2026-01-01T00:00:00Z"
STATES: dict[str, dict[str, Any]] = {
    "running": {"state": {"running": {"startedAt": TIME}}, "ready": True, "imageID": "sha256:1"},
    "pulling": {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}, "ready": False},
    "killed": {
        "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": TIME, "message": "said"}},
        "lastState": {"terminated": {"exitCode": 2, "finishedAt": TIME}},
        "ready": False,
    },
}


def pod(state: dict[str, Any]) -> dict[str, Any]:
    types = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "DisruptionTarget")
    condition = {"status": "True", "lastProbeTime": None, "lastTransitionTime": TIME, "reason": "R", "message": "M"}
    containers = [{"name": "sandbox", "image": "i:1", "env": [{"name": "A", "value": "1"}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "pool-3",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": TIME,
            "deletionTimestamp": TIME,
            "deletionGracePeriodSeconds": 0,
            "labels": {"sweyard.dev/pool": "pool", "sweyard.dev/component": "sandbox"},
            "annotations": {"sweyard.dev/holder": "h", "sweyard.dev/node": "n"},
            "ownerReferences": [{"uid": "owner"}],
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"nodeName": "n", "containers": containers, "tolerations": [{"key": "k"}]},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "low on resource",
            "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": kind, **condition} for kind in types],
            "initContainerStatuses": [{"name": "init", "image": "x", **STATES["running"]}],
            "containerStatuses": [{"name": "sandbox", "image": "i:1", **state}],
        },
    }


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_of_a_pod_all_that_is_read_is_kept(state: dict[str, Any]) -> None:
    whole = pod(state)
    kept = slim(whole)
    parsed = parse_pod("pool", "owner", kept)
    assert parsed is not None
    assert parsed.deletion_grace_seconds == 0
    assert parsed == parse_pod("pool", "owner", whole)
    assert read_pod(kept) == read_pod(whole)
    assert reports_of_pods([kept]) == reports_of_pods([whole])
    assert kept["metadata"] == {name: value for name, value in whole["metadata"].items() if name != "managedFields"}


def test_a_pod_without_spec_or_status_is_kept_as_it_is() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
    assert slim(bare) == bare
