"""The operator's own rights: enough for what it does, and no more."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.chart.conftest import RELEASE

from sweyard_cluster.errors import ClusterError
from sweyard_cluster.testing import TestCluster
from sweyard_operator.resources import (
    ALL,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NODES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    TRAINING_RUNS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)

pytestmark = pytest.mark.apiserver

OPERATOR = "system:serviceaccount:sweyard-system:sweyard-operator"
AS_OPERATOR = f"--as={OPERATOR}"
ROLES = ("Role", "RoleBinding")
CLASSES = (RESOURCE_FLAVORS, PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES)
READ_ONLY = (NODES, EVENTS, LEASES, TRAINING_RUNS, ENDPOINT_SLICES, *CLASSES)


@pytest.fixture(scope="module")
def bound(api_server: TestCluster, helm: Callable[..., str]) -> Iterator[TestCluster]:
    """The API server with the operator's roles, in the whole cluster."""
    everywhere = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")
    manifests = [
        one
        for one in yaml.safe_load_all(helm("template", *RELEASE))
        if one and (one["kind"] in everywhere or (one["kind"] in ROLES and one["metadata"]["namespace"] == "default"))
    ]
    api_server.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", input_text=yaml.safe_dump_all(manifests)
    )
    yield api_server
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        ours = [one["metadata"]["name"] for one in manifests if one["kind"] == binding]
        api_server.kubectl("-n", "default", "delete", binding, *ours)


def may(server: TestCluster, verb: str, resource: str) -> bool:
    """Not by `kubectl auth can-i`, which loses the group of a kind that the server does not have."""
    named, _, subresource = resource.partition("/")
    plural, _, group = named.partition(".")
    asked = {"verb": verb, "resource": plural, "group": group, "subresource": subresource, "namespace": "default"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": OPERATOR, "resourceAttributes": asked},
    }
    answer = server.kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed}", input_text=json.dumps(review))
    return answer.strip() == "true"


def full_name(resource: Resource) -> str:
    group = resource.api_version.rpartition("/")[0].partition("/")[0] if "/" in resource.api_version else ""
    return f"{resource.plural}.{group}" if group else resource.plural


@pytest.mark.parametrize("resource", [one for one in ALL if one != POD_GROUPS], ids=lambda resource: resource.kind)
def test_it_may_read_every_kind_that_it_handles(resource: Resource, bound: TestCluster) -> None:
    assert may(bound, "list", full_name(resource))


@pytest.mark.parametrize(
    "resource", [one for one in ALL if one not in (*READ_ONLY, POD_GROUPS)], ids=lambda resource: resource.kind
)
def test_it_may_make_and_remove_children(resource: Resource, bound: TestCluster) -> None:
    assert all(may(bound, verb, full_name(resource)) for verb in ("create", "patch", "delete"))


def test_it_may_make_a_gang_and_no_more(bound: TestCluster) -> None:
    allowed = [verb for verb in ("get", "list", "create", "patch", "delete") if may(bound, verb, full_name(POD_GROUPS))]
    assert allowed == ["get", "create"]


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("create", "pods/exec"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("create", "roles.rbac.authorization.k8s.io"),
        ("patch", "nodes"),
        ("patch", "trainingruns.sweyard.dev"),
        ("use", "rolloutpools.sweyard.dev"),
        ("deletecollection", "pods"),
    ],
)
def test_it_may_not(verb: str, resource: str, bound: TestCluster) -> None:
    assert not may(bound, verb, resource)


def binding(role: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"to-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }


@pytest.mark.parametrize("role", ["sweyard-trainer", "sweyard-holder", "sweyard-cache-agent"])
def test_it_binds_the_roles_of_its_components(role: str, bound: TestCluster) -> None:
    bound.kubectl("create", AS_OPERATOR, "--dry-run=server", "-f", "-", input_text=json.dumps(binding(role)))


@pytest.mark.parametrize("role", ["cluster-admin", "admin", "edit"])
def test_it_binds_no_other_role(role: str, bound: TestCluster) -> None:
    with pytest.raises(ClusterError, match="attempting to grant RBAC permissions not currently held"):
        bound.kubectl("create", AS_OPERATOR, "--dry-run=server", "-f", "-", input_text=json.dumps(binding(role)))
