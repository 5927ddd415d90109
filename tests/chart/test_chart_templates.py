"""What the chart renders to, and which values it refuses."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from tests.chart.conftest import CHART, RELEASE, HelmError

from sweyard_operator.settings import RUNTIME_SOCKET

pytestmark = pytest.mark.apiserver  # needs helm, which is built like the API server

MONITORING = CHART / "files" / "monitoring"

Render = Callable[..., list[dict[str, Any]]]


def only(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def operator_environment(manifests: list[dict[str, Any]]) -> dict[str, str]:
    (container,) = only(manifests, "Deployment", "sweyard-operator")["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def test_lint_finds_nothing(helm: Callable[..., str]) -> None:
    assert "0 chart(s) failed" in helm("lint", str(CHART), "--strict")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("images.tga=1", "additional properties 'tga' not allowed"),
        ("operator.replicas=2", "additional properties 'replicas' not allowed"),
        ("images.pullPolicy=Sometimes", "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ("images.operator.repository=", "minLength"),
        ("images.tag=a b", "does not match pattern"),
        ("images.tag=7", "got number, want string"),
        ("watchNamespaces={Team_A}", "does not match pattern"),
        ("watchNamespaces={a,a}", "items at 0 and 1 are equal"),
        ("watchNamespaces=a", "want array"),
        ("operator.leaderLeaseSeconds=1", "minimum"),
        ("operator.resources.limits.memory=1GB", "does not match pattern"),
        ("cacheAgent.runtimeSocket=/crio.sock", "does not match pattern"),
        ("crds.install=maybe", "want boolean"),
        ("metrics.serviceMonitor.interval=30", "interval"),
        ("development.python=/opt/python", "missing properties"),
        ("development.hostPaths={opt}", "does not match pattern"),
    ],
)
def test_wrong_values_are_refused(value: str, said: str, helm: Callable[..., str]) -> None:
    with pytest.raises(HelmError, match=said):
        helm("template", *RELEASE, "--set", value)


def test_images_have_a_registry_and_a_tag(render: Render) -> None:
    common = render(
        "--set", "images.registry=mirror:5000/x", "--set", "images.tag=v7", "--set", "images.trainer.tag=v8"
    )
    (container,) = only(common, "Deployment", "sweyard-operator")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mirror:5000/x/sweyard-operator:v7"
    environment = operator_environment(common)
    assert environment["SWEYARD_TRAINER_IMAGE"] == "mirror:5000/x/sweyard-trainer:v8"
    assert environment["SWEYARD_CACHE_AGENT_IMAGE"] == "mirror:5000/x/sweyard-cache-agent:v7"


def test_agents_are_told_where_the_nodes_container_runtime_listens(render: Render) -> None:
    assert operator_environment(render())["SWEYARD_RUNTIME_SOCKET"] == RUNTIME_SOCKET
    # As after `helm upgrade --reuse-values` from a chart that did not have the value.
    assert "SWEYARD_RUNTIME_SOCKET" not in operator_environment(render("--set", "cacheAgent=null"))
    crio = render("--set", "cacheAgent.runtimeSocket=/run/crio/crio.sock")
    assert operator_environment(crio)["SWEYARD_RUNTIME_SOCKET"] == "/run/crio/crio.sock"


def test_one_operator_at_a_time_with_probes_and_limits(render: Render) -> None:
    spec = only(render(), "Deployment", "sweyard-operator")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (container,) = spec["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"requests", "limits"} <= container["resources"].keys()


@pytest.mark.parametrize("name", ["sweyard-operator", "sweyard-ui"])
def test_a_late_answer_on_a_busy_node_is_not_taken_for_death(render: Render, name: str) -> None:
    (container,) = only(render("--set", "ui.enabled=true,ui.anyone=true"), "Deployment", name)["spec"]["template"][
        "spec"
    ]["containers"]
    assert container["livenessProbe"]["timeoutSeconds"] == 10


def test_development_reaches_the_operator_as_json_and_is_off_by_default(render: Render) -> None:
    assert "SWEYARD_DEVELOPMENT" not in operator_environment(render())
    values = ["image=base:1", "python=/opt/s/bin/python", "hostPaths={/opt/s,/opt/t}", "runAsUser=0"]
    given = render(*(argument for value in values for argument in ("--set", f"development.{value}")))
    assert json.loads(operator_environment(given)["SWEYARD_DEVELOPMENT"]) == {
        "image": "base:1",
        "python": "/opt/s/bin/python",
        "hostPaths": ["/opt/s", "/opt/t"],
        "runAsUser": 0,
    }


def test_the_operator_understands_the_charts_development_value(render: Render) -> None:
    from sweyard_operator.build.run_context import parse_development

    values = ["image=base:1", "python=/opt/s/bin/python", "hostPaths={/opt/s}"]
    given = render(*(argument for value in values for argument in ("--set", f"development.{value}")))
    development = parse_development(operator_environment(given)["SWEYARD_DEVELOPMENT"])
    assert development is not None
    assert (development.image, development.host_paths) == ("base:1", ["/opt/s"])


def test_watched_namespaces_get_a_binding_each_and_no_right_beyond(render: Render) -> None:
    manifests = render("--set", "watchNamespaces={team-a,team-b}")
    bound = {one["metadata"]["namespace"] for one in manifests if one["metadata"]["name"] == "sweyard-operator"
             and one["kind"] == "RoleBinding"}  # fmt: skip
    assert bound == {"team-a", "team-b"}
    cluster_wide = [one["roleRef"]["name"] for one in manifests if one["kind"] == "ClusterRoleBinding"]
    assert cluster_wide == ["sweyard-operator-sweyard-system-nodes"]
    assert operator_environment(manifests)["SWEYARD_WATCH_NAMESPACES"] == "team-a,team-b"


def test_no_rule_has_a_wildcard_or_reads_secrets(render: Render) -> None:
    rules = [rule for one in render() if one["kind"] in ("Role", "ClusterRole") for rule in one.get("rules") or ()]
    assert rules
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "secrets" not in rule["resources"]
        assert not {"escalate", "impersonate"} & set(rule["verbs"])


def test_the_operator_may_bind_exactly_three_roles(render: Render) -> None:
    rules = only(render(), "ClusterRole", "sweyard-operator-sweyard-system")["rules"]
    (bind,) = [rule for rule in rules if "bind" in rule["verbs"]]
    assert set(bind["resourceNames"]) == {"sweyard-trainer", "sweyard-holder", "sweyard-cache-agent"}


def test_crds_are_kept_and_can_be_left_out(render: Render) -> None:
    crds = [one for one in render() if one["kind"] == "CustomResourceDefinition"]
    assert len(crds) == 3
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in crds} == {"keep"}
    without = render("--set", "crds.install=false")
    assert not [one for one in without if one["kind"] == "CustomResourceDefinition"]


def test_a_service_monitor_is_made_only_on_request(render: Render) -> None:
    assert not [one for one in render() if one["kind"] == "ServiceMonitor"]
    values = ("--set", "metrics.serviceMonitor.enabled=true", "--set", "metrics.serviceMonitor.labels.team=a")
    monitor = only(render(*values), "ServiceMonitor", "sweyard-operator")
    assert monitor["metadata"]["labels"]["team"] == "a"
    service = only(render(), "Service", "sweyard-operator-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_alerts_and_a_dashboard_are_made_only_on_request(render: Render) -> None:
    assert not {"sweyard", "sweyard-dashboard"} & {one["metadata"]["name"] for one in render()}
    manifests = render("--set", "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true")
    groups = only(manifests, "PrometheusRule", "sweyard")["spec"]["groups"]
    assert groups == yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    dashboard = only(manifests, "ConfigMap", "sweyard-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"]["sweyard.json"] == (MONITORING / "dashboard.json").read_text()


def test_a_second_release_can_leave_out_what_belongs_to_the_cluster(render: Render) -> None:
    off = ("crds.install", "rbac.create", "admissionPolicies.enabled")
    manifests = render("--set", ",".join(f"{name}=false" for name in off), "--set", "watchNamespaces={team-b}")
    shared = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert not shared & {one["kind"] for one in manifests}
    roles = {one["metadata"]["name"] for one in manifests if one["kind"] == "ClusterRole"}
    assert roles == {"sweyard-operator-sweyard-system", "sweyard-operator-sweyard-system-nodes"}


def test_the_page_is_off_unless_asked_for_and_refused_without_a_token(render: Render, helm: Callable[..., str]) -> None:
    assert not [one for one in render() if one["metadata"]["name"].startswith("sweyard-ui")]
    with pytest.raises(HelmError, match=r"ui\.tokenSecret: name a Secret"):
        helm("template", *RELEASE, "--set", "ui.enabled=true")


def test_the_page_reads_alone_and_mounts_what_it_shows(render: Render) -> None:
    values = ("enabled=true", "tokenSecret=page", "namespace=team", "runs[0].run=r", "runs[0].claimName=c")
    manifests = render(*(part for value in values for part in ("--set", f"ui.{value}")))
    roles = [one for one in manifests if one["kind"] == "ClusterRole" and "sweyard-ui" in one["metadata"]["name"]]
    rules = [rule for role in roles for rule in role["rules"]]
    assert {name: rule["verbs"] for rule in rules for name in rule["resources"]} == {
        **{name: ["list"] for name in ("trainingruns", "rolloutpools", "imagecaches", "nodes")},
        "pods": ["list", "watch"],
        "configmaps": ["get", "list"],
    }
    deployment = only(manifests, "Deployment", "sweyard-ui")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["metadata"]["namespace"] == "team"
    assert container["args"][:3] == ["ui", "/runs", "--cluster"]
    assert container["env"][0]["valueFrom"] == {"secretKeyRef": {"name": "page", "key": "token"}}
    assert {"name": "run-r", "mountPath": "/runs/r", "readOnly": True} in container["volumeMounts"]
    assert pod["volumes"][1]["persistentVolumeClaim"] == {"claimName": "c", "readOnly": True}


def test_the_page_mounts_a_claim_that_runs_share_once(render: Render, helm: Callable[..., str]) -> None:
    values = ("enabled=true", "tokenSecret=page", "claimName=shared")
    asked = [part for value in values for part in ("--set", f"ui.{value}")]
    pod = only(render(*asked), "Deployment", "sweyard-ui")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:3] == ["ui", "/runs", "--cluster"]
    assert {"name": "runs", "mountPath": "/runs", "readOnly": True} in container["volumeMounts"]
    assert pod["volumes"][1]["persistentVolumeClaim"] == {"claimName": "shared", "readOnly": True}
    with pytest.raises(HelmError, match="exclude each other"):
        helm("template", *RELEASE, *asked, "--set", "ui.runs[0].run=r", "--set", "ui.runs[0].claimName=c")


def test_a_page_of_watched_namespaces_has_rights_in_those_alone(render: Render) -> None:
    manifests = render("--set", "ui.enabled=true", "--set", "ui.anyone=true", "--set", "watchNamespaces={a,b}")
    bound = [one for one in manifests if one["metadata"]["name"] == "sweyard-ui" and one["kind"] == "RoleBinding"]
    assert [one["metadata"]["namespace"] for one in bound] == ["a", "b"]
    (container,) = only(manifests, "Deployment", "sweyard-ui")["spec"]["template"]["spec"]["containers"]
    assert container["args"][-3:] == ["--namespace=a", "--namespace=b", "--anyone"]
