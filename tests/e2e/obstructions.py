"""Objects that make an API server say no, and a volume that is soon full."""

from typing import Any

NO_SEATS = "no-seats"


def pod_denial(namespace: str, component: str) -> list[dict[str, Any]]:
    """A policy that refuses new pods of a component."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    other = f"object.metadata.?labels['sweyard.dev/component'].orValue('') != '{component}'"
    return _denial(namespace, pods, other, f"no {component} today")


def report_denial(namespace: str) -> list[dict[str, Any]]:
    """A policy that refuses what trainers report."""
    statuses = {"apiGroups": ["sweyard.dev"], "apiVersions": ["*"], "operations": ["UPDATE"]}
    other = "!request.userInfo.username.endsWith('-trainer')"
    return _denial(namespace, {**statuses, "resources": ["trainingruns/status"]}, other, "no reports today")


def _denial(namespace: str, what: dict[str, Any], unless: str, message: str) -> list[dict[str, Any]]:
    """A policy, and its binding to one namespace."""
    name, group = f"deny-{namespace}", "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [what]},
            "validations": [{"expression": unless, "message": message}],
        },
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": where},
    }
    return [policy, binding]


def flow_without_seats() -> list[dict[str, Any]]:
    """A priority level that serves nothing and queues nothing, for all that service accounts ask."""
    group = "flowcontrol.apiserver.k8s.io/v1"
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {
        "apiVersion": group,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": NO_SEATS},
        "spec": {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}},
    }
    everything = {
        "subjects": [{"kind": "Group", "group": {"name": "system:serviceaccounts"}}],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    schema = {
        "apiVersion": group,
        "kind": "FlowSchema",
        "metadata": {"name": NO_SEATS},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": NO_SEATS},
            "rules": [everything],
        },
    }
    return [level, schema]


def small_volume(namespace: str, place: str) -> list[dict[str, Any]]:
    """The claim `small` of a namespace, with a directory of the node as its volume."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = {"namespace": namespace, "name": "small"}
    volume = {**common, "capacity": {"storage": "64Mi"}, "hostPath": {"path": place}, "claimRef": claim}
    wanted = {**common, "volumeName": f"small-{namespace}", "resources": {"requests": {"storage": "64Mi"}}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"small-{namespace}"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": wanted},
    ]
