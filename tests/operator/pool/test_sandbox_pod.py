"""The sandbox's manifest: safe by default, and what each field of the template changes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.pool_network_policy import build_network_policy
from sweyard_operator.build.reset_check import DIRTY_EXIT_CODE
from sweyard_operator.build.sandbox_pod import build_sandbox_pod, template_hash

OWNER = {
    "apiVersion": "sweyard.dev/v1alpha1",
    "kind": "RolloutPool",
    "metadata": {"name": "pool", "namespace": "team", "uid": "u-1"},
}


def spec(**fields: Any) -> RolloutPoolSpec:
    return RolloutPoolSpec.model_validate(fields)


def build(slot: int = 3, avoided_nodes: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    pod = build_sandbox_pod(OWNER, spec(**fields), slot=slot, image="registry.test/a:1", avoided_nodes=avoided_nodes)
    return dict(pod)


def test_a_sandbox_has_no_way_out_by_default() -> None:
    pod = build()
    assert pod["metadata"]["name"] == "pool-3"
    assert pod["metadata"]["annotations"]["sweyard.dev/holder"] == ""
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    inner = pod["spec"]
    assert inner["automountServiceAccountToken"] is False
    assert inner["enableServiceLinks"] is False
    assert inner["restartPolicy"] == "Never"
    assert inner["dnsPolicy"] == "None"
    assert inner["activeDeadlineSeconds"] == 7_200
    assert inner["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    container = inner["containers"][0]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert set(container["resources"]["limits"]) == {"memory", "ephemeral-storage"}


def test_a_user_id_brings_the_restricted_level() -> None:
    context = build(template={"runAsUser": 1000})["spec"]["containers"][0]["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 1000,
        "runAsNonRoot": True,
    }


@pytest.mark.parametrize(
    ("resources", "disk", "memory_limit"),
    [
        ({"requests": {"cpu": "1"}}, ("1Gi", "8Gi"), "4Gi"),
        ({"limits": {"ephemeral-storage": "64Mi"}}, ("64Mi", "64Mi"), "4Gi"),
        ({"requests": {"ephemeral-storage": "2Gi", "memory": "8Gi"}}, ("2Gi", "2Gi"), "8Gi"),
    ],
)
def test_disk_and_memory_are_always_limited(
    resources: dict[str, dict[str, str]], disk: tuple[str, str], memory_limit: str
) -> None:
    built = build(template={"resources": resources})["spec"]["containers"][0]["resources"]
    assert (built["requests"]["ephemeral-storage"], built["limits"]["ephemeral-storage"]) == disk
    assert built["limits"]["memory"] == memory_limit


@pytest.mark.parametrize(
    ("resources", "threads"),
    [({"limits": {"cpu": "2500m"}}, "3"), ({"requests": {"cpu": "500m"}}, "1"), ({"requests": {"cpu": "4"}}, "4")],
)
def test_tools_are_told_of_the_pods_cores(resources: dict[str, dict[str, str]], threads: str) -> None:
    env = {
        entry["name"]: entry["value"]
        for entry in build(template={"resources": resources})["spec"]["containers"][0]["env"]
    }
    assert env["OMP_NUM_THREADS"] == threads
    assert env["MAKEFLAGS"] == f"-j{threads}"


def test_overrides_reach_everything_and_keep_the_rest() -> None:
    overrides = {
        "hostname": "box",
        "containers": [{"name": "sandbox", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}],
        "volumes": [{"name": "cache", "emptyDir": {}}],
    }
    inner = build(template={"podOverrides": overrides})["spec"]
    assert (inner["hostname"], inner["volumes"][0]["name"]) == ("box", "cache")
    assert inner["containers"][0]["volumeMounts"] == [{"name": "cache", "mountPath": "/cache"}]
    assert inner["containers"][0]["image"] == "registry.test/a:1"


def test_the_limit_on_a_node_is_one_pod_of_each_lane() -> None:
    pods = [build(slot=slot, maxPerNode=3) for slot in range(6)]
    lanes = [pod["metadata"]["labels"]["sweyard.dev/lane"] for pod in pods]
    assert lanes == ["0", "1", "2", "0", "1", "2"]
    terms = pods[4]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0]["labelSelector"]["matchLabels"] == pods[4]["metadata"]["labels"]
    assert terms[0]["topologyKey"] == "kubernetes.io/hostname"


def test_sandboxes_of_a_pool_spread_over_nodes_where_they_can() -> None:
    pod = build()
    (spread,) = pod["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert "topologySpreadConstraints" not in build(avoided_nodes=("a",))["spec"]
    own = [{**spread, "topologyKey": "topology.kubernetes.io/zone"}]
    overridden = build(template={"podOverrides": {"topologySpreadConstraints": own}})
    assert overridden["spec"]["topologySpreadConstraints"] == own


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", 0),
        ("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n", 0),
        ("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n# left\n", DIRTY_EXIT_CODE),
        ("nameserver 8.8.8.8\n", DIRTY_EXIT_CODE),
        ("", DIRTY_EXIT_CODE),
    ],
)
def test_the_check_of_a_reset_takes_the_resolvers_options_in_any_order(
    tmp_path: Path, text: str, exit_code: int
) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text(text)
    *shell, script = build(recycle="verified")["spec"]["containers"][0]["command"]
    given, _, check = script.partition("dirty() {")
    look = next(line for line in check.splitlines() if "$resolv_conf" in line).replace("/etc/resolv.conf", str(file))
    assert subprocess.run([*shell, f"{given}dirty() {{ exit $dirty; }}\n{look}"], check=False).returncode == exit_code


@pytest.mark.parametrize(
    "overrides",
    [
        {"containers": {"name": "sandbox"}},
        {"tolerations": {"key": "a"}},
        {"nodeSelector": {"env": "prod"}},
        {"securityContext": []},
    ],
)
def test_overrides_of_another_form_replace_ours(overrides: dict[str, Any]) -> None:
    built = build(template={"podOverrides": overrides})
    assert built["spec"].items() >= overrides.items()


def test_metadata_that_is_asked_for_stands_beside_the_operators_own() -> None:
    before = build()["metadata"]
    asked = {"labels": {"team": "a"}, "annotations": {"mesh.example/inject": "false"}}
    pod = build(template=asked)["metadata"]
    assert pod["labels"] == {**before["labels"], "team": "a"}
    assert pod["annotations"].keys() == {*before["annotations"], "mesh.example/inject"}


def test_avoided_nodes_are_preferred_against_and_are_no_reason_to_roll() -> None:
    pod = build(avoided_nodes=("a", "b"))
    term = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert [field["values"] for field in term["preference"]["matchFields"]] == [["a"], ["b"]]
    assert pod["metadata"]["annotations"]["sweyard.dev/template-hash"] == template_hash(spec())


@pytest.mark.parametrize(
    ("fields", "rolls"),
    [
        ({"replicas": 99}, False),
        ({"warm": [{"image": "a:1", "replicas": 3}]}, False),
        ({"network": {"egressCidrs": ["10.0.0.0/8"]}}, False),
        ({"startupDeadlineSeconds": 99}, False),
        ({"template": {"runAsUser": 7}}, True),
        ({"template": {"labels": {"team": "a"}}}, True),
        ({"template": {"annotations": {"team": "a"}}}, True),
        ({"runtimeClassName": "gvisor"}, True),
        ({"maxLifetimeSeconds": 999}, True),
        ({"maxPerNode": 2}, True),
        ({"template": {"podOverrides": {"hostname": "x"}}}, True),
    ],
)
def test_only_what_is_in_the_pods_makes_them_anew(fields: dict[str, Any], rolls: bool) -> None:
    assert (template_hash(spec(**fields)) != template_hash(spec())) == rolls


@pytest.mark.parametrize(
    ("network", "targets"),
    [
        ({}, [{"podSelector": {"matchLabels": {"sweyard.dev/component": "gateway"}}}]),
        ({"allowGateway": False}, []),
        ({"allowGateway": False, "egressCidrs": ["10.1.0.0/16"]}, [{"ipBlock": {"cidr": "10.1.0.0/16"}}]),
    ],
    ids=["gateway", "nothing", "cidr"],
)
def test_the_policy_denies_all_but_what_is_named(network: dict[str, Any], targets: list[dict[str, Any]]) -> None:
    policy = build_network_policy(OWNER, spec(network=network))
    assert policy["spec"]["ingress"] == []
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [target for rule in policy["spec"]["egress"] for target in rule["to"]] == targets
    labels = build()["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
