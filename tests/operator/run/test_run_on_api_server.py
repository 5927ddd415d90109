"""Runs under the operator process and real controllers; the test plays kubelet and trainer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.operator.run.lab import LEFTOVERS, RUNNING, Json, Lab, ended

from sweyard_api.constants import FIELD_MANAGER_TRAINER
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.testing import TestCluster
from sweyard_operator.observe.trainer_job import read_job
from sweyard_operator.plan.stall import end_job

pytestmark = pytest.mark.apiserver

HERE = Path(__file__).parent
GOLDENS = ("tiny", "tiny-development", "deepswe-32b")


@pytest.mark.parametrize("golden", GOLDENS)
def test_api_server_takes_every_manifest(kinds: TestCluster, golden: str) -> None:
    kinds.kubectl("apply", "-f", "-", input_text="{apiVersion: v1, kind: Namespace, metadata: {name: lab}}")
    path = HERE / "golden" / f"{golden}.yaml"
    shown = kinds.kubectl("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", str(path))
    assert len(shown.split()) == len(list(yaml.safe_load_all(path.read_text())))


@pytest.mark.parametrize("golden", ["tiny", "deepswe-32b"])
def test_pods_keep_the_restricted_level(kinds: TestCluster, golden: str) -> None:
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": level}}
    kinds.kubectl("apply", "-f", "-", input_text=json.dumps(namespace))
    documents = yaml.safe_load_all((HERE / "golden" / f"{golden}.yaml").read_text())
    templates = [
        item["spec"]["template"] for item in documents if "template" in item["spec" if "spec" in item else "metadata"]
    ]
    templates = [template for template in templates if "containers" in template.get("spec", {})]
    assert templates
    for template in templates:
        # The account is made by the operator, and is not what is tested here.
        spec = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "restricted"}, "spec": spec}
        shown = kinds.kubectl("create", "--dry-run=server", "-o", "name", "-f", "-", input_text=json.dumps(pod))
        assert shown.strip() == "pod/pod"


def test_run_reaches_its_end_though_operator_and_trainer_die(lab: Lab) -> None:
    lab.apply_run(restart={"limit": 1, "backoffSeconds": 0})
    lab.until("the data set is missed", lambda: lab.condition("Progressing").get("reason") == "DatasetMissing")
    lab.make_dataset()
    lab.until("no node", lambda: lab.condition("InferenceReady").get("reason") == "Unschedulable")
    assert "no nodes available to schedule pods" in lab.condition("InferenceReady")["message"]
    lab.kill_operator()
    lab.serve()
    lab.start_operator()
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("the trainer runs", lambda: lab.phase() == "Running")
    lab.report(attempt=0, phase="rl", step=5, totalSteps=30, metrics={"rewardMean": 0.25})
    lab.until("progress is copied", lambda: lab.get("tr", "demo")["status"].get("step") == 5)
    lab.become(lab.trainer_pod(0), ended(1, "RuntimeError: connection reset"))
    lab.kill_operator()
    lab.start_operator()
    second = lab.trainer_pod(1)
    lab.until("the restart is counted", lambda: lab.get("tr", "demo")["status"].get("restarts") == 1)
    lab.become(second, RUNNING)
    lab.until("the second attempt runs", lambda: lab.phase() == "Running")
    lab.report(attempt=1, phase="finished", step=30, totalSteps=30, progressPercentage=100)
    lab.become(second, ended(0))
    lab.until("success", lambda: lab.phase() == "Succeeded")
    lab.until("engines are released", lambda: not lab.names("statefulsets,deployments"))
    assert lab.names("jobs") == ["job.batch/demo-trainer-0", "job.batch/demo-trainer-1"]
    status = lab.get("tr", "demo")["status"]
    assert (status["step"], status["restarts"], status["attempts"]) == (30, 1, 2)
    managers = json.loads(lab.kubectl("get", "tr", "demo", "-o", "json", "--show-managed-fields"))
    owners = {
        entry["manager"]
        for entry in managers["metadata"]["managedFields"]
        if "f:trainer" in entry["fieldsV1"].get("f:status", {})
    }
    assert owners == {FIELD_MANAGER_TRAINER}
    events = lab.kubectl("get", "events", "--field-selector=involvedObject.kind=TrainingRun", "-o", "json")
    assert {"DatasetMissing", "Unschedulable", "TrainerStarting", "Finished"} <= {
        event["reason"] for event in json.loads(events)["items"]
    }
    lab.kubectl("delete", "tr", "demo")
    lab.until("nothing is left", lambda: not lab.names(f"{LEFTOVERS},rolloutpools,imagecaches,leases"))


def test_a_job_whose_trainer_hangs_ends_and_is_followed_by_the_next(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run(mode="sft", sft={"datasets": ["/data/chats.jsonl"]}, restart={"backoffSeconds": 0})
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")
    patch = end_job(lab.namespace, read_job(lab.get("job", "demo-trainer-0")), "it did not report for long")
    lab.kubectl("patch", "job", patch.name, "--type=json", "-p", json.dumps(patch.operations))
    lab.become(lab.trainer_pod(1), RUNNING)
    lab.until("the second attempt runs", lambda: lab.phase() == "Running")
    status = lab.get("tr", "demo")["status"]
    assert (status["restarts"], status["attempts"]) == (1, 2)
    failure = {"attempt": 0, "reason": "Stalled", "message": "it did not report for long"}
    assert status["lastFailure"] == failure
    assert not lab.names("pods", "sweyard.dev/attempt=0")


def test_supervised_run_holds_a_trainer_and_nothing_else(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run(mode="sft", sft={"datasets": ["/data/chats.jsonl"]})
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")
    assert not lab.names("statefulsets,deployments,rolloutpools,imagecaches")
    assert lab.names("services") == ["service/demo-trainer"]
    lab.become(lab.trainer_pod(0), ended(0))
    lab.until("success", lambda: lab.phase() == "Succeeded")


def test_evaluation_asks_for_no_accelerator_beside_its_engines(lab: Lab) -> None:
    lab.make_dataset()
    gpus = {"limits": {"nvidia.com/gpu": "8", "memory": "1Gi"}}
    measured = {"mode": "eval", "model": {"name": "some/model"}, "tasks": {"eval": [{"dataset": "tiny"}]}}
    lab.apply_run(**measured, trainer={"replicas": 2, "resources": gpus})
    lab.serve()
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("it runs with one pod", lambda: lab.phase() == "Running")
    (container,) = lab.get("job", "demo-trainer-0")["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}


def test_engines_come_and_go_as_the_trainer_asks(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run(inference={"replicas": 3, "scaling": {"minReplicas": 1}})
    lab.serve()
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")
    engines = "sweyard.dev/component=engine"
    assert lab.names("pods", engines) == ["pod/demo-engine-0"]
    for asked, given in ((3, 3), (2, 2), (9, 3)):
        lab.report(attempt=0, phase="rl", step=1, totalSteps=30, engines=asked)
        wanted = [f"pod/demo-engine-{number}" for number in range(given)]
        lab.until(f"{given} engines", lambda wanted=wanted: lab.names("pods", engines) == wanted)


def test_users_fault_ends_the_run_with_the_trainers_sentence(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run()
    lab.serve()
    lab.become(lab.trainer_pod(0), ended(2, "tasks.train: no task is left; loosen tasks.train.ids"))
    lab.until("failure", lambda: lab.condition("Failed").get("status") == "True")
    assert lab.condition("Failed")["reason"] == "UserError"
    assert lab.condition("Failed")["message"] == "tasks.train: no task is left; loosen tasks.train.ids"
    lab.until("the Job's own verdict", lambda: lab.get("job", "demo-trainer-0")["status"].get("conditions"))
    assert lab.names("jobs") == ["job.batch/demo-trainer-0"]


def test_suspended_run_holds_nothing_and_resumes_as_a_new_attempt(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run()
    lab.serve()
    lab.become(lab.trainer_pod(0), RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")
    lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    lab.until("suspended", lambda: lab.condition("Suspended").get("status") == "True")
    assert not lab.names("pods,jobs,statefulsets,deployments,rolloutpools")
    assert lab.names("pvc,configmaps") == ["persistentvolumeclaim/demo", "configmap/demo-config"]
    lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    lab.serve()
    lab.become(lab.trainer_pod(1), RUNNING)
    lab.until("it runs again", lambda: lab.phase() == "Running")
    status = lab.get("tr", "demo")["status"]
    assert (status["attempts"], status["restarts"]) == (2, 0)


def test_quota_and_foreign_objects_are_told_and_recovered_from(lab: Lab) -> None:
    lab.make_dataset()
    lab.kubectl("create", "quota", "small", "--hard=pods=0")
    lab.kubectl("create", "configmap", "demo-config", "--from-literal=mine=yes")
    lab.apply_run()
    lab.until("the conflict", lambda: lab.condition("Progressing").get("reason") == "NameConflict")
    assert lab.get("configmap", "demo-config")["data"] == {"mine": "yes"}
    lab.kubectl("delete", "configmap", "demo-config")
    lab.until("the quota", lambda: lab.condition("InferenceReady").get("reason") == "FailedCreate")
    assert "exceeded quota: small" in lab.condition("InferenceReady")["message"]
    lab.kubectl("delete", "quota", "small")
    lab.until("pods", lambda: lab.names("pods", "sweyard.dev/component=engine"), timeout_seconds=120)


def test_a_drain_takes_one_rank_at_a_time_and_spends_no_restart(lab: Lab) -> None:
    lab.make_dataset()
    lab.apply_run(trainer={"device": "cpu", "dtype": "float32", "replicas": 2}, restart={"backoffSeconds": 0})
    lab.serve()
    selector = "sweyard.dev/component=trainer,sweyard.dev/attempt=0"
    lab.until("both ranks", lambda: len(lab.names("pods", selector)) == 2)
    ranks = lab.names("pods", selector)
    for rank in ranks:
        lab.become(rank, RUNNING)
    lab.until("it runs", lambda: lab.phase() == "Running")
    allowed = "jsonpath={.status.disruptionsAllowed}"
    lab.until("a budget", lambda: lab.kubectl("get", "pdb", "demo-trainer", "-o", allowed) == "1")
    lab.evict(ranks[0])  # the Job's own finalizer keeps it, and the garbage collector of pods ends it later
    lab.until("the eviction is told", lambda: lab.get("tr", "demo")["status"].get("lastFailure"))
    with pytest.raises(ClusterError, match="disruption budget"):
        lab.evict(ranks[1])
    lab.become(ranks[1], ended(143))
    lab.until("the next attempt", lambda: lab.names("pods", "sweyard.dev/attempt=1"), timeout_seconds=120)
    status = lab.get("tr", "demo")["status"]
    assert status["restarts"] == 0
    assert (status["lastFailure"]["attempt"], status["lastFailure"]["reason"]) == (0, "Disrupted")


def workload_kind(plural: str, kind: str, scope: str) -> Json:
    """As much of a CRD of Kueue's as its protocol needs."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v1beta2", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "kueue.x-k8s.io",
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture(scope="session")
def kueue(kinds: TestCluster) -> Iterator[None]:
    """Kueue's kinds; the test plays its controller."""
    made = [
        workload_kind("workloads", "Workload", "Namespaced"),
        workload_kind("resourceflavors", "ResourceFlavor", "Cluster"),
    ]
    for crd in made:
        kinds.kubectl("apply", "-f", "-", input_text=json.dumps(crd))
        kinds.wait_for_kind(crd["metadata"]["name"])
    yield
    for crd in made:
        kinds.kubectl("delete", "crd", crd["metadata"]["name"])


def test_a_queued_run_is_admitted_evicted_and_admitted_again(lab: Lab, kueue: None) -> None:
    lab.make_dataset()
    lab.apply_run(queueName="team")
    lab.until("its place in the queue", lambda: lab.names("workloads"))
    assert not lab.names("pods,jobs,statefulsets,deployments,rolloutpools,configmaps")
    for attempt in (0, 1):
        lab.say_of_workload(QuotaReserved="True", Admitted="True", Evicted="False")
        lab.serve()
        lab.become(lab.trainer_pod(attempt), RUNNING)
        lab.until("it runs", lambda: lab.phase() == "Running")
        lab.until("Kueue is told", lambda: lab.told_of_workload().get("PodsReady") == "True")
        lab.say_of_workload(Evicted="True")
        lab.until("the quota is given back", lambda: lab.told_of_workload()["QuotaReserved"] == "False")
        assert not lab.names("pods,jobs,statefulsets,deployments,rolloutpools")
        assert "admission" not in lab.get("workload", "demo")["status"]
        assert lab.told_of_workload()["Requeued"] == "True"
    lab.kubectl("delete", "tr", "demo")
    lab.until("nothing is left", lambda: not lab.names(f"{LEFTOVERS},workloads"))
