"""A real API server with the chart's kinds, roles and policies, and accounts bound as the operator binds them."""

import base64
import itertools
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.admission.accounts import CONFIG_MAPS, NAMESPACE, POD, PODS, POOL, Account, Create, pod
from tests.chart.conftest import RELEASE

from sweyard_cluster.api import ApiError
from sweyard_cluster.testing import TestCluster
from sweyard_operator.resources import resource_of


@pytest.fixture(scope="session")
def governed(api_server: TestCluster, helm: Callable[..., str]) -> Iterator[TestCluster]:
    """The API server with the chart's kinds, roles and policies, and a namespace to work in."""
    manifests = helm("template", *RELEASE)
    parts = ("CustomResourceDefinition", "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    wanted = [one for one in yaml.safe_load_all(manifests) if one and one["kind"] in parts]
    api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input_text=yaml.safe_dump_all(wanted))
    api_server.wait_for_kind("trainingruns.sweyard.dev")
    api_server.make_namespace(NAMESPACE)
    wait_for_policies(api_server)
    yield api_server
    api_server.remove_namespace(NAMESPACE)


def wait_for_policies(api_server: TestCluster) -> None:
    """The API server takes new policies up a second later, in their order: once the last one holds, all do."""
    admission, metadata = "admissionregistration.k8s.io/v1", {"name": "tests-last"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'refused-by-the-last'", "message": "it holds"}],
    }
    binding = {"policyName": metadata["name"], "validationActions": ["Deny"]}
    for kind, body in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        manifest = {"apiVersion": admission, "kind": kind, "metadata": metadata, "spec": body}
        api_server.kubectl("apply", "-f", "-", input_text=json.dumps(manifest))
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        try:
            api_server.api.call("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "refused-by-the-last"}})
        except ApiError as error:
            if "it holds" in str(error):
                return
            raise
        time.sleep(0.2)
    raise AssertionError("admission policies are not enforced")


@pytest.fixture(scope="session")
def create(governed: TestCluster) -> Create:
    """Make an object as the cluster's administrator."""

    def make(manifest: dict[str, Any]) -> None:
        whole = {"apiVersion": "v1"} | manifest
        governed.api.call("POST", resource_of(whole).path(NAMESPACE), whole)

    return make


@pytest.fixture(scope="session")
def account(governed: TestCluster, create: Create) -> Callable[..., Account]:
    """An account of the namespace, bound to ClusterRoles, with a token bound to a pod of its own or to none."""
    (cluster,) = yaml.safe_load(governed.kubeconfig.read_text())["clusters"]
    server, trust = cluster["cluster"]["server"], _trust(cluster["cluster"])

    def make(name: str, *roles: str, bound_to: str | None = None) -> Account:
        kubectl = governed.kubectl
        kubectl("-n", NAMESPACE, "create", "serviceaccount", name)
        for role in roles:
            subject = f"--serviceaccount={NAMESPACE}:{name}"
            kubectl("-n", NAMESPACE, "create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", subject)
        bound = []
        if bound_to:
            create(pod(bound_to, {"app": "trainer"}, account=name))
            bound = ["--bound-object-kind=Pod", f"--bound-object-name={bound_to}"]
        return Account(server, trust, kubectl("-n", NAMESPACE, "create", "token", name, *bound).strip())

    return make


def _trust(cluster: dict[str, Any]) -> ssl.SSLContext:
    if "certificate-authority" in cluster:
        return ssl.create_default_context(cadata=Path(cluster["certificate-authority"]).read_text())
    return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())


@pytest.fixture(scope="session")
def trainer(account: Callable[..., Account]) -> Account:
    """As the operator binds a run's trainer."""
    return account("tiny-trainer", "sweyard-trainer", "sweyard-holder", bound_to=POD)


@pytest.fixture(scope="session")
def outsider(account: Callable[..., Account]) -> Account:
    """A holder outside every pod: its name is its account's."""
    return account("notebook", "sweyard-holder")


@pytest.fixture(scope="session")
def administrator(account: Callable[..., Account]) -> Account:
    return account("owner", "admin", "sweyard-holder")


_slots = itertools.count()


@pytest.fixture
def sandbox(create: Create) -> Callable[[str | None], str]:
    """Path of a new sandbox pod with such a holder."""

    def make(holder: str | None) -> str:
        name = f"pool-{next(_slots)}"
        create(pod(name, {POOL: "pool"}, holder))
        return f"{PODS}/{name}"

    return make
