"""Hands and rules of others on the objects of a run, under the operator process and real controllers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.operator.run.lab import RUNNING, Json, Lab

from sweyard_cluster.errors import ClusterError

pytestmark = pytest.mark.apiserver

ADMISSION = "admissionregistration.k8s.io/v1"


def in_namespace(lab: Lab) -> Json:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}}}


def rule(group: str, operation: str, resource: str) -> Json:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}


@contextmanager
def webhook_down(lab: Lab, **what: Any) -> Iterator[None]:
    """Nobody listens where the API server is to ask."""
    hook = {
        **{"name": "down.test.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail"},
        **in_namespace(lab),
        "timeoutSeconds": 2,
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule(**what)],
    }
    kind, name = "MutatingWebhookConfiguration", f"down-{lab.namespace}"
    body = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}
    lab.kubectl("create", "-f", "-", body=body)
    yield
    lab.kubectl("delete", kind, name)


@contextmanager
def policy_against(lab: Lab, **what: Any) -> Iterator[None]:
    """A ValidatingAdmissionPolicy that denies it."""
    name = f"against-{lab.namespace}"
    spec: Json = {"matchConstraints": {"resourceRules": [rule(**what)]}, "failurePolicy": "Fail"}
    spec["validations"] = [{"expression": "false", "message": "not on Fridays"}]
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": in_namespace(lab)}
    for kind, part in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        lab.kubectl(
            "create", "-f", "-", body={"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": part}
        )
    yield
    lab.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


def begin(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run(restart={"backoffSeconds": 0})


def work(lab: Lab, attempt: int) -> None:
    lab.serve()
    lab.become(lab.trainer_pod(attempt), RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")


def test_a_webhook_that_is_down_and_a_quota_for_half_are_told_and_recovered_from(lab: Lab) -> None:
    lab.kubectl("create", "quota", "small", "--hard=pods=1")
    with webhook_down(lab, group="apps", operation="CREATE", resource="statefulsets"):
        begin(lab)
        lab.until("the webhook", lambda: "down.test.dev" in lab.condition("Progressing").get("message", ""))
        assert lab.condition("Progressing")["reason"] == "Forbidden"
    lab.until("engines", lambda: lab.names("statefulsets"))
    told = ("exceeded quota: small", "; raise the quota or lower inference.resources")
    lab.until("the quota", lambda: all(words in lab.condition("InferenceReady").get("message", "") for words in told))
    lab.kubectl("delete", "quota", "small")
    lab.until("pods", lambda: lab.names("pods", "sweyard.dev/component=engine"), timeout_seconds=120)
    work(lab, 0)


def test_what_hands_did_is_put_right_and_a_job_without_its_pods_is_followed_by_the_next(lab: Lab) -> None:
    begin(lab)
    work(lab, 0)
    address = lab.get("service", "demo-gateway")["spec"]["clusterIP"]
    lab.kubectl("scale", "statefulset/demo-engine", "deployment/demo-gateway", "--replicas=0")
    lab.kubectl("delete", "service", "demo-gateway")
    lab.until("the Service", lambda: "service/demo-gateway" in lab.names("services"))
    assert lab.get("service", "demo-gateway")["spec"]["clusterIP"] == address
    for server in ("statefulset/demo-engine", "deployment/demo-gateway"):
        kind, _, name = server.partition("/")
        lab.until(server, lambda kind=kind, name=name: lab.get(kind, name)["spec"]["replicas"] == 1)
    lab.kubectl("delete", "job", "demo-trainer-0", "--cascade=orphan")
    work(lab, 1)
    assert not lab.names("pods", "sweyard.dev/attempt=0")
    assert lab.get("tr", "demo")["status"]["restarts"] == 0


def test_a_deletion_that_is_denied_is_told_and_a_deleted_run_that_is_kept_holds_nothing(lab: Lab) -> None:
    begin(lab)
    work(lab, 0)
    with policy_against(lab, group="batch", operation="DELETE", resource="jobs"):
        lab.until("it denies", lambda: not _may_delete(lab))
        lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"spec": {"suspend": true}}')
        lab.until("its words", lambda: "not on Fridays" in lab.condition("Suspended").get("message", ""))
    lab.until("suspended", lambda: lab.condition("Suspended").get("status") == "True")
    lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    work(lab, 1)
    kept = {"metadata": {"finalizers": ["test.dev/backup"]}}
    lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", json.dumps(kept))
    lab.kubectl("delete", "tr", "demo", "--wait=false")
    lab.until("nothing is held", lambda: "nothing is held" in lab.condition("Progressing").get("message", ""))
    assert not lab.names("pods,jobs,statefulsets,deployments,rolloutpools")
    assert lab.names("pvc") == ["persistentvolumeclaim/demo"]
    lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    lab.until("the rest goes", lambda: not lab.names("pvc,configmaps"))


def _may_delete(lab: Lab) -> bool:
    """A policy is in force some moments after it was made."""
    try:
        lab.kubectl("delete", "job", "demo-trainer-0", "--dry-run=server")
    except ClusterError:
        return False
    return True
