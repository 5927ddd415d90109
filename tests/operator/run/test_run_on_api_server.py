"""Runs under the operator process and real controllers; the test plays kubelet and trainer."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_api.constants import FIELD_MANAGER_TRAINER, GROUP
from sweyard_api.kinds import KINDS
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
GOLDENS = ("tiny", "tiny-development", "deepswe-32b")
LEFTOVERS = (
    "pods,jobs,statefulsets,deployments,services,configmaps,pvc,serviceaccounts,rolebindings,networkpolicies,"
    "poddisruptionbudgets"
)

Json = dict[str, Any]


@pytest.fixture(scope="session")
def kinds(api_server: TestCluster) -> TestCluster:
    api_server.install_kinds(*(REPOSITORY / "crds" / f"{kind.plural}.yaml" for kind in KINDS))
    return api_server


class Lab:
    """One namespace with one operator of its own."""

    def __init__(self, cluster: TestCluster, namespace: str, log: Path) -> None:
        self.cluster, self.namespace, self._log = cluster, namespace, log
        self._process: subprocess.Popen[bytes] | None = None

    def kubectl(self, *arguments: str, body: Json | None = None) -> str:
        text = None if body is None else json.dumps(body)
        return self.cluster.kubectl("-n", self.namespace, *arguments, input_text=text)

    def start_operator(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "SWEYARD_WATCH_NAMESPACES": self.namespace,
            "POD_NAMESPACE": self.namespace,
            "SWEYARD_TRAINER_IMAGE": "registry.test/sweyard-trainer:1",
            "SWEYARD_HTTP_PORT": str(port),
            "SWEYARD_LEADER_LEASE_SECONDS": "3",
        }
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "sweyard_operator"]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill_operator(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def get(self, kind: str, name: str) -> Json:
        answer: Json = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return answer

    def names(self, kind: str, selector: str = "sweyard.dev/run=demo") -> list[str]:
        return self.kubectl("get", kind, "-l", selector, "-o", "name").split()

    def apply_run(self, **changes: Any) -> None:
        spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **changes}
        metadata = {"name": "demo", "namespace": self.namespace}
        run = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingRun", "metadata": metadata, "spec": spec}
        self.kubectl("apply", "--server-side", "-f", "-", body=run)

    def make_dataset(self) -> None:
        self.kubectl("create", "configmap", "tiny", "--from-literal=tasks.jsonl.gz=none")

    def condition(self, kind: str) -> Json:
        conditions = self.get("tr", "demo").get("status", {}).get("conditions", [])
        return next((entry for entry in conditions if entry["type"] == kind), {})

    def phase(self) -> str:
        return str(self.get("tr", "demo").get("status", {}).get("phase", ""))

    def until(self, what: str, holds: Callable[[], object], timeout_seconds: float = 60) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not holds():
            if time.monotonic() > deadline:
                shown = self.kubectl("get", "tr", "demo", "-o", "yaml", "--ignore-not-found")
                pytest.fail(f"not within {timeout_seconds} s: {what}\n{shown}\n{self._log.read_text()[-4_000:]}")
            time.sleep(0.3)

    def become(self, pod: str, status: Json) -> None:
        """The kubelet writes a pod's status."""
        patch = json.dumps({"status": status})
        self.kubectl("patch", pod, "--subresource=status", "--type=merge", "-p", patch)

    def serve(self) -> None:
        """Engine and gateway pods get ready."""
        for component in ("engine", "gateway"):
            selector = f"sweyard.dev/component={component}"
            self.until(f"pods of {component}", lambda selector=selector: self.names("pods", selector))
            for pod in self.names("pods", selector):
                self.become(pod, RUNNING)

    def trainer_pod(self, attempt: int) -> str:
        selector = f"sweyard.dev/component=trainer,sweyard.dev/attempt={attempt}"
        self.until(f"pod of attempt {attempt}", lambda: self.names("pods", selector))
        return self.names("pods", selector)[0]

    def evict(self, pod: str) -> None:
        """As a drain does. Raises ClusterError where a budget forbids it."""
        name = pod.partition("/")[2]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", body=body)

    def say_of_workload(self, **conditions: str) -> None:
        """Kueue writes conditions, and an admission where it reserves quota."""
        status = self.get("workload", "demo").get("status", {})
        others = [entry for entry in status.get("conditions", ()) if entry["type"] not in conditions]
        said = {"reason": "Preempted", "message": "as the test says", "lastTransitionTime": stamp()}
        new = [{"type": kind, "status": value, **said} for kind, value in conditions.items()]
        written: Json = {"conditions": [*others, *new]}
        if "Admitted" in conditions:
            written["admission"] = {"clusterQueue": "lab", "podSetAssignments": []}
        self.become("workload/demo", written)

    def told_of_workload(self) -> dict[str, str]:
        status = self.get("workload", "demo").get("status", {})
        return {entry["type"]: entry["status"] for entry in status.get("conditions", ())}

    def report(self, **fields: Any) -> None:
        """The trainer writes status.trainer, as its client does."""
        metadata = {"name": "demo", "namespace": self.namespace}
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingRun", "metadata": metadata}
        body["status"] = {"trainer": {"updatedAt": stamp(), **fields}}
        manager = f"--field-manager={FIELD_MANAGER_TRAINER}"
        self.kubectl("apply", "--server-side", "--subresource=status", manager, "-f", "-", body=body)


RUNNING: Json = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
}


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(exit_code: int, said: str = "") -> Json:
    """Status of a trainer pod whose container ended."""
    end = {"exitCode": exit_code, "message": said, "finishedAt": stamp(), "startedAt": stamp(), "reason": "Error"}
    container = {"name": "trainer", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
    container["state"] = {"terminated": end}
    scheduled = {"type": "PodScheduled", "status": "True"}
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False"}, scheduled],
        "containerStatuses": [container],
    }


@pytest.fixture
def lab(kinds: TestCluster, tmp_path: Path) -> Iterator[Lab]:
    namespace = f"run-{uuid.uuid4().hex[:8]}"
    kinds.kubectl("create", "namespace", namespace)
    lab = Lab(kinds, namespace, tmp_path / "operator.log")
    lab.start_operator()
    try:
        yield lab
    finally:
        lab.kill_operator()
        kinds.kubectl("delete", "namespace", namespace, "--wait=false")


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
    version = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}
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
