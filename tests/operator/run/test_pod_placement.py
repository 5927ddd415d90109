"""Where the pods of a run may go, and how many of them a drain may take."""

import functools
import json
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_cluster.testing import TestCluster
from sweyard_operator.build.disruption_budgets import build_disruption_budgets
from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.run_context import RunContext, RunSettings
from sweyard_operator.build.trainer_job import build_trainer_job

SETTINGS = RunSettings("registry.example/sweyard-trainer:1")
RACK = "topology.example.com/rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def make_run(**changes: Any) -> RunContext:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **changes}
    return RunContext("demo", "lab", "run-uid", resolve(spec))


def trainer_pod(run: RunContext) -> dict[str, Any]:
    job = build_trainer_job(run, SETTINGS, attempt=0, restarts=0, gateway_ip=None)
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def test_nothing_is_asked_of_the_scheduler_that_the_spec_does_not_ask() -> None:
    assert "affinity" not in trainer_pod(make_run())


def test_a_gang_that_wants_one_rack_follows_its_own_pods() -> None:
    affinity = trainer_pod(make_run(trainer={"replicas": 4, "topologyKey": RACK}))["affinity"]
    own = {"sweyard.dev/run": "demo", "sweyard.dev/component": "trainer"}
    assert affinity == {"podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": own}, "topologyKey": RACK}]}}


def test_all_pods_of_all_engines_go_to_the_rack_that_the_first_one_chose() -> None:
    spanning = {"replicas": 2, "tensorParallel": 2, "podsPerEngine": 2, "topologyKey": RACK}
    engines = build_engines(make_run(inference=spanning, trainer={"device": "auto"}), SETTINGS)
    own = {"sweyard.dev/run": "demo", "sweyard.dev/component": "engine"}
    (term,) = engines["spec"]["template"]["spec"]["affinity"]["podAffinity"][REQUIRED]
    assert term == {"labelSelector": {"matchLabels": own}, "topologyKey": RACK}


def test_engines_of_exclusive_nodes_keep_off_other_runs_and_not_off_their_own() -> None:
    engines = build_engines(make_run(inference={"exclusiveNodes": True}), SETTINGS)
    (term,) = engines["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert (term["topologyKey"], term["namespaceSelector"]) == ("kubernetes.io/hostname", {})
    rules = {rule["key"]: (rule["operator"], rule.get("values")) for rule in term["labelSelector"]["matchExpressions"]}
    assert rules == {
        "sweyard.dev/component": ("In", ["trainer", "engine"]),
        "sweyard.dev/run": ("Exists", None),
        "sweyard.dev/run-uid": ("NotIn", ["run-uid"]),
    }


def test_resource_claims_pass_through() -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight-gpus"}]
    container = {"name": "trainer", "resources": {"claims": [{"name": "gpus"}]}}
    overrides = {"resourceClaims": claims, "containers": [container]}
    pod = trainer_pod(make_run(trainer={"podOverrides": overrides, "resources": {"limits": {"memory": "4Gi"}}}))
    assert pod["resourceClaims"] == claims
    resources = pod["containers"][0]["resources"]
    assert (resources["claims"], resources["limits"]["memory"]) == ([{"name": "gpus"}], "4Gi")


MOST_BUT_ONE, ONE = "minAvailable", "maxUnavailable"


@pytest.mark.parametrize(
    ("changes", "budgets"),
    [
        pytest.param({}, {}, id="one pod alone could only be held for ever"),
        pytest.param({"trainer": {"replicas": 4}}, {"demo-trainer": {MOST_BUT_ONE: 3}}, id="a gang of four"),
        pytest.param(
            {"trainer": {"replicas": 2}, "inference": {"replicas": 3}},
            {"demo-trainer": {MOST_BUT_ONE: 1}, "demo-engine": {ONE: 1}},
            id="gang and engines",
        ),
        pytest.param(
            {"inference": {"placement": "external", "url": "https://engine.example", "replicas": 3}}, {}, id="external"
        ),
    ],
)
def test_a_drain_takes_one_pod_of_a_component_at_a_time(
    changes: dict[str, Any], budgets: dict[str, dict[str, int]]
) -> None:
    built = build_disruption_budgets(make_run(**changes))
    allowed = {budget["metadata"]["name"]: budget["spec"] for budget in built}
    assert {name: {key: spec[key] for key in (MOST_BUT_ONE, ONE) if key in spec} for name, spec in allowed.items()} == (
        budgets
    )
    for budget in built:
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        assert budget["metadata"]["ownerReferences"][0]["uid"] == "run-uid"


@pytest.mark.apiserver
@pytest.mark.parametrize("present", [1, 2])
def test_a_drain_may_take_an_engine_of_those_that_a_run_with_scaling_has_now(kinds: TestCluster, present: int) -> None:
    run = make_run(inference={"replicas": 3, "scaling": {"minReplicas": 1}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"drained-{present}"}}
    kubectl = functools.partial(kinds.kubectl, "-n", f"drained-{present}")
    made = [build_engines(run, SETTINGS, present), *build_disruption_budgets(run)]
    ownerless = [{**one, "metadata": {**one["metadata"], "ownerReferences": [], "namespace": ""}} for one in made]
    for manifest in [namespace, *ownerless]:
        kubectl("create", "-f", "-", input_text=json.dumps(manifest))
    engines = [f"pod/demo-engine-{number}" for number in range(present)]
    kubectl("wait", "--for=create", *engines, "--timeout=60s")
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for engine in engines:
        kubectl("patch", engine, "--subresource=status", "--type=merge", "-p", json.dumps(ready))
    kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/demo-engine", "--timeout=60s")
