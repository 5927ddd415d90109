"""Install, upgrade, rollback and uninstall on a real API server."""

import json
from collections.abc import Callable

import pytest
import yaml
from tests.chart.conftest import CHART, RELEASE, REPOSITORY, HelmError

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

CRDS = ("trainingruns.sweyard.dev", "rolloutpools.sweyard.dev", "imagecaches.sweyard.dev")
WHERE = ("-n", "sweyard-system")


def operator_image(server: TestCluster) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return server.kubectl(*WHERE, "get", "deployment", "sweyard-operator", "-o", path)


def columns(server: TestCluster) -> list[str]:
    path = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}"
    return server.kubectl("get", "crd", CRDS[0], "-o", path).split()


def test_from_install_to_uninstall(own_api_server: TestCluster, helm: Callable[..., str]) -> None:
    server, kubectl = own_api_server, own_api_server.kubectl

    def release(*arguments: str) -> str:
        return helm(*arguments, kubeconfig=server.kubeconfig)

    notes = release("install", *RELEASE, "--create-namespace", "--set", "images.tag=v1")
    assert "kubectl apply -f trainingrun.yaml" in notes
    for crd in CRDS:
        server.wait_for_kind(crd)
    assert operator_image(server).endswith("/sweyard-operator:v1")
    kubectl("apply", "-f", str(REPOSITORY / "examples/tiny/trainingrun.yaml"))

    # An older CRD is brought up to date by an upgrade, and runs survive it.
    older = {"spec": {"versions": json.loads(kubectl("get", "crd", CRDS[0], "-o", "jsonpath={.spec.versions}"))}}
    older["spec"]["versions"][0]["additionalPrinterColumns"] = []
    kubectl("patch", "crd", CRDS[0], "--type=merge", "-p", json.dumps(older))
    assert columns(server) == []
    with pytest.raises(HelmError, match=r'conflict with "kubectl-patch" .*: \.spec\.versions'):
        release("upgrade", *RELEASE, "--set", "images.tag=v2")
    release("upgrade", *RELEASE, "--set", "images.tag=v2", "--force-conflicts")
    assert "Step" in columns(server)
    assert operator_image(server).endswith("/sweyard-operator:v2")

    kubectl(*WHERE, "scale", "deployment/sweyard-operator", "--replicas=0")
    release("upgrade", *RELEASE, "--set", "images.tag=v2")
    assert kubectl(*WHERE, "get", "deployment", "-o", "jsonpath={.items[*].spec.replicas}") == "1"

    release("rollback", "sweyard", "1", *WHERE)
    assert operator_image(server).endswith("/sweyard-operator:v1")

    release("uninstall", "sweyard", *WHERE)
    assert kubectl("get", "tr", "tiny", "-o", "name").strip() == "trainingrun.sweyard.dev/tiny"
    left = kubectl("get", "clusterrole,clusterrolebinding,validatingadmissionpolicy", "-o", "name", "-A")
    assert "sweyard" not in left.replace("sweyard-admin", "")
    assert kubectl(*WHERE, "get", "deployment,service,role,rolebinding,serviceaccount", "-o", "name").split() == [
        "serviceaccount/default"
    ]

    assert "kubectl get trainingruns" in release("install", *RELEASE)
    kubectl("get", "tr", "tiny")
    release("uninstall", "sweyard", *WHERE)


def test_every_manifest_passes_a_server_side_dry_run(
    own_api_server: TestCluster, helm: Callable[..., str], kept_crds: None
) -> None:
    kubectl = own_api_server.kubectl
    for namespace in ("sweyard-system", "team-a", "team-b"):
        known = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        kubectl("apply", "-f", "-", input_text=known)
    for values in ((), ("--set", "watchNamespaces={team-a,team-b}"), ("--set", "crds.install=false")):
        manifests = helm("template", *RELEASE, *values)
        told = kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-",
                       input_text=manifests)  # fmt: skip
        assert "deployment.apps/sweyard-operator serverside-applied (server dry run)" in told


@pytest.fixture
def kept_crds(own_api_server: TestCluster) -> None:
    own_api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "files" / "crds"))


def test_the_operators_pod_meets_the_restricted_standard(own_api_server: TestCluster, helm: Callable[..., str]) -> None:
    kubectl = own_api_server.kubectl
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": restricted}}
    kubectl("apply", "-f", "-", input_text=json.dumps(namespace))
    kubectl("-n", "restricted", "create", "serviceaccount", "sweyard-operator")
    deployment = yaml.safe_load(helm("template", *RELEASE, "-s", "templates/deployment.yaml"))
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"]["name"] = "operator"
    kubectl("-n", "restricted", "create", "--dry-run=server", "-f", "-", input_text=json.dumps(pod))
    kubectl("delete", "namespace", "restricted", "--wait=false")
