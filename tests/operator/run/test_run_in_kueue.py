"""Runs in the queues of a real Kueue, beside a real API server; the test plays kubelet and trainer.

Each run has a namespace, an operator and a LocalQueue of its own; what is shared is the ClusterQueue.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.operator.run.lab import LEFTOVERS, RUNNING, Json, Lab, ended, stamp

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.testing import TestCluster, shared_cluster

pytestmark = [pytest.mark.apiserver, pytest.mark.slow, pytest.mark.timeout(900)]

CRDS = Path(__file__).parents[3] / "crds"
GROUP = "kueue.x-k8s.io"
HELD = "pods,jobs,statefulsets,deployments,rolloutpools"
ENOUGH, SHORT, NOTHING = "2", "1", "0"
"""CPUs for one run of the tiny preset, for a part of one, and for none."""
PATIENCE_SECONDS = 240.0


class Yard:
    """A ClusterQueue with one flavor, and runs in it."""

    def __init__(self, cluster: TestCluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        self.name = f"yard-{uuid.uuid4().hex[:8]}"
        self._labs: list[Lab] = []

    def open(self, cpu: str, *checks: str) -> None:
        """Make queue and flavor, or give the queue another quota; `checks` are names of AdmissionChecks."""
        self._apply("ResourceFlavor", {"nodeLabels": {"pool": "spot"}, "tolerations": [TOLERATION]})
        amounts = {"cpu": cpu, "memory": "1Ti", "ephemeral-storage": "1Ti"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        flavors = [{"name": self.name, "resources": quotas}]
        groups = [{"coveredResources": list(amounts), "flavors": flavors}]
        preemption = {"withinClusterQueue": "LowerPriority"}
        queue: Json = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption}
        if checks:
            queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        self._apply("ClusterQueue", queue)

    def add_check(self) -> str:
        """Name of an AdmissionCheck whose controller is the test."""
        self._apply("AdmissionCheck", {"controllerName": f"{self.name}.test/controller"})
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": stamp()}
        patch = json.dumps({"status": {"conditions": [active]}})
        arguments = ("patch", "admissioncheck", self.name, "--subresource=status", "--type=merge", "-p", patch)
        self.cluster.kubectl(*arguments)
        return self.name

    def say_of_check(self, lab: Lab, state: str, message: str, **update: Any) -> None:
        """As its controller does of one Workload; `update` is for the pods of all its sets."""
        names = [one["name"] for one in lab.get("workload", "demo")["spec"]["podSets"]] if update else []
        check = {"name": self.name, "state": state, "message": message, "lastTransitionTime": stamp()}
        check["podSetUpdates"] = [{"name": name, **update} for name in names]
        lab.become("workload/demo", {"admissionChecks": [check]})

    def add(self, name: str) -> Lab:
        """A namespace with an operator and a LocalQueue."""
        namespace = f"{self.name}-{name}"
        self.cluster.make_namespace(namespace)
        lab = Lab(self.cluster, namespace, self._folder / f"{name}.log", lease_seconds=60)
        self._labs.append(lab)
        self._apply("LocalQueue", {"clusterQueue": self.name}, name="team", namespace=namespace)
        lab.make_dataset()
        lab.start_operator()
        return lab

    def reserved(self) -> str:
        """CPUs that Kueue counts as taken."""
        queue = json.loads(self.cluster.kubectl("get", "clusterqueue", self.name, "-o", "json"))
        (flavor,) = queue["status"]["flavorsReservation"]
        return next(str(one["total"]) for one in flavor["resources"] if one["name"] == "cpu")

    def stop(self, policy: str) -> None:
        patch = json.dumps({"spec": {"stopPolicy": policy}})
        self.cluster.kubectl("patch", "clusterqueue", self.name, "--type=merge", "-p", patch)

    def close(self) -> None:
        for lab in self._labs:
            lab.kill_operator()
            self.cluster.remove_namespace(lab.namespace)

    def _apply(self, kind: str, spec: Json, name: str = "", **metadata: str) -> None:
        manifest = {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "spec": spec}
        manifest["metadata"] = {"name": name or self.name, **metadata}
        self.cluster.kubectl("apply", "--server-side", "-f", "-", input_text=json.dumps(manifest))


TOLERATION = {"key": "team", "operator": "Exists"}


@pytest.fixture(scope="module")
def kueue(cluster_tool: Tool, session_id: str) -> Iterator[TestCluster]:
    """A control plane with Kueue, and our kinds."""
    with shared_cluster(cluster_tool, f"{session_id}-kueue", ClusterRequest(kueue=True)) as cluster:
        cluster.install_kinds(*sorted(CRDS.glob("*.yaml")))
        yield cluster


@pytest.fixture
def yard(kueue: TestCluster, tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(kueue, tmp_path)
    try:
        yield yard
    finally:
        yard.close()


def until(lab: Lab, what: str, holds: Callable[[], object]) -> None:
    lab.until(what, holds, PATIENCE_SECONDS)


STOPPED = "is stopped|is inactive"
"""Why the run was evicted, and soon afterwards why it is not admitted."""


def work(lab: Lab, attempt: int = 0) -> None:
    """Wait for its admission, and run all its pods."""
    until(lab, "it is admitted", lambda: lab.names("pods"))
    lab.serve()
    lab.become(lab.trainer_pod(attempt), RUNNING)
    until(lab, "it runs", lambda: lab.phase() == "Running")


def wait_until_let_go(lab: Lab, words: str) -> None:
    until(lab, "its quota is given back", lambda: lab.told_of_workload()["QuotaReserved"] == "False")
    assert not lab.names(HELD)
    until(lab, "Kueue's words are told", lambda: re.search(words, lab.condition("Admitted")["message"]))
    assert (lab.phase(), lab.condition("Admitted")["status"]) == ("Pending", "False")


def wait_for_quota(lab: Lab) -> None:
    until(lab, "it lines up", lambda: lab.names("workloads"))
    until(lab, "quota is reserved", lambda: lab.told_of_workload().get("QuotaReserved") == "True")


def place(lab: Lab) -> str:
    return str(lab.get("workload", "demo")["metadata"]["uid"])


def test_a_run_waits_for_quota_with_nothing_and_is_admitted_whole_where_the_quota_lies(yard: Yard) -> None:
    yard.open(SHORT)
    lab = yard.add("one")
    lab.apply_run(queueName="team")
    words = "insufficient quota for cpu in flavor"
    until(lab, "Kueue says why it waits", lambda: words in lab.condition("Admitted").get("message", ""))
    assert words in lab.condition("Progressing")["message"]
    assert lab.phase() == "Pending"
    assert not lab.names(f"{HELD},configmaps,pvc")
    yard.open(ENOUGH)
    work(lab)
    assert lab.condition("Admitted")["message"] == f"admitted by ClusterQueue {yard.name}"
    for kind, name in (("job", "demo-trainer-0"), ("statefulset", "demo-engine"), ("deployment", "demo-gateway")):
        made = lab.get(kind, name)
        pod = made["spec"]["template"]["spec"]
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "spot"}, [TOLERATION]), name
        assert not made["spec"].get("suspend")
        assert GROUP not in json.dumps(made["metadata"].get("labels", {}))
    assert lab.names("workloads", "") == ["workload.kueue.x-k8s.io/demo"], "children are not queued again"
    until(lab, "Kueue is told that all pods run", lambda: lab.told_of_workload().get("PodsReady") == "True")


@pytest.mark.parametrize("ending", ["finished", "deleted", "suspended"])
def test_a_run_that_ends_gives_back_its_quota(yard: Yard, ending: str) -> None:
    yard.open(ENOUGH)
    lab = yard.add("one")
    lab.apply_run(queueName="team")
    work(lab)
    assert yard.reserved() != NOTHING
    if ending == "finished":
        lab.report(attempt=0, phase="finished", step=30, totalSteps=30, progressPercentage=100)
        lab.become(lab.trainer_pod(0), ended(0))
    elif ending == "deleted":
        lab.kubectl("delete", "tr", "demo")
        until(lab, "nothing is left", lambda: not lab.names(f"{LEFTOVERS},workloads"))
    else:
        lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    until(lab, "the quota is free", lambda: yard.reserved() == NOTHING)


def of_the_pods(name: str) -> Json:
    return {"trainer": {"device": "cpu", "dtype": "float32", "priorityClassName": name}}


def of_the_place(name: str) -> Json:
    return {"workloadPriorityClassName": name}


@pytest.mark.parametrize(
    ("api_version", "kind", "named"),
    [
        ("scheduling.k8s.io/v1", "PriorityClass", of_the_pods),
        (f"{GROUP}/v1beta2", "WorkloadPriorityClass", of_the_place),
    ],
)
def test_a_run_of_higher_priority_takes_the_place_of_a_lower_one_which_comes_back(
    yard: Yard, api_version: str, kind: str, named: Callable[[str], Json]
) -> None:
    for name, value in (("low", 1), ("high", 100)):
        made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
        yard.cluster.kubectl("apply", "-f", "-", input_text=json.dumps({**made, "value": value}))
    yard.open(ENOUGH)
    labs = {name: yard.add(name) for name in ("low", "high")}
    low, high = labs["low"], labs["high"]
    low.apply_run(queueName="team", **named("low"))
    work(low)
    old_place = place(low)
    high.apply_run(queueName="team", **named("high"))
    work(high)
    wait_until_let_go(low, "insufficient unused quota for cpu")
    assert low.told_of_workload()["Requeued"] == "True"
    high.report(attempt=0, phase="finished", step=30, totalSteps=30, progressPercentage=100)
    high.become(high.trainer_pod(0), ended(0))
    until(high, "success", lambda: high.phase() == "Succeeded")
    work(low, attempt=1)
    assert place(low) == old_place
    status = low.get("tr", "demo")["status"]
    assert (status["attempts"], status["restarts"]) == (2, 0)


def deactivate(yard: Yard, lab: Lab, *, on: bool) -> None:
    patch = json.dumps({"spec": {"active": not on}})
    lab.kubectl("patch", "workload", "demo", "--type=merge", "-p", patch)


def stop_cluster_queue(yard: Yard, lab: Lab, *, on: bool) -> None:
    yard.stop("HoldAndDrain" if on else "None")


def stop_local_queue(yard: Yard, lab: Lab, *, on: bool) -> None:
    patch = json.dumps({"spec": {"stopPolicy": "HoldAndDrain" if on else "None"}})
    lab.kubectl("patch", "localqueue", "team", "--type=merge", "-p", patch)


@pytest.mark.parametrize(
    ("interrupt", "words"),
    [
        (deactivate, "The workload is deactivated"),
        (stop_cluster_queue, STOPPED),
        (stop_local_queue, STOPPED),
    ],
)
def test_a_run_that_kueue_interrupts_lets_go_and_comes_back_when_it_may(
    yard: Yard, interrupt: Callable[..., None], words: str
) -> None:
    yard.open(ENOUGH)
    lab = yard.add("one")
    lab.apply_run(queueName="team")
    work(lab)
    old_place = place(lab)
    interrupt(yard, lab, on=True)
    wait_until_let_go(lab, words)
    until(lab, "the quota is free", lambda: yard.reserved() == NOTHING)
    interrupt(yard, lab, on=False)
    work(lab, attempt=1)
    assert place(lab) == old_place
    assert lab.get("tr", "demo")["status"]["restarts"] == 0


def test_a_class_that_does_not_exist_is_told_and_waited_for(yard: Yard) -> None:
    yard.open(ENOUGH)
    lab = yard.add("one")
    lab.apply_run(queueName="team", **of_the_place(yard.name))
    until(lab, "it is told", lambda: lab.condition("Progressing").get("reason") == "PriorityClassMissing")
    assert not lab.names("workloads")
    made = {"apiVersion": f"{GROUP}/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": yard.name}}
    yard.cluster.kubectl("apply", "-f", "-", input_text=json.dumps({**made, "value": 7}))
    work(lab)
    assert lab.get("workload", "demo")["spec"]["priority"] == 7


def test_a_check_is_waited_for_and_gives_the_pods_what_it_has(yard: Yard) -> None:
    yard.open(ENOUGH, yard.add_check())
    lab = yard.add("one")
    lab.apply_run(queueName="team")
    wait_for_quota(lab)
    yard.say_of_check(lab, "Pending", "no node in zone b")
    words = f"AdmissionCheck {yard.name} is Pending: no node in zone b"
    until(lab, "it is told", lambda: words in lab.condition("Admitted")["message"])
    assert not lab.names(HELD)
    other = {"key": "reserved", "operator": "Exists"}
    labels, annotations = {"cost-centre": "7"}, {"provisioned": "by-check"}
    update = {"labels": labels, "annotations": annotations, "nodeSelector": {"zone": "b"}, "tolerations": [other]}
    yard.say_of_check(lab, "Ready", "", **update)
    work(lab)
    for kind, name in (("job", "demo-trainer-0"), ("statefulset", "demo-engine"), ("deployment", "demo-gateway")):
        pod = lab.get(kind, name)["spec"]["template"]
        assert pod["metadata"]["annotations"] == annotations, name
        assert pod["metadata"]["labels"]["cost-centre"] == "7", name
        assert pod["spec"]["nodeSelector"] == {"pool": "spot", "zone": "b"}, name
        assert pod["spec"]["tolerations"] == [TOLERATION, other], name
    sandbox = lab.get("rolloutpool", "demo")["spec"]["template"]
    assert (sandbox["labels"], sandbox["annotations"]) == (labels, annotations)


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_check_that_takes_a_place_away_is_heeded_and_the_run_comes_back(yard: Yard, state: str) -> None:
    yard.open(ENOUGH, yard.add_check())
    lab = yard.add("one")
    lab.apply_run(queueName="team")
    wait_for_quota(lab)
    yard.say_of_check(lab, "Ready", "")
    work(lab)
    yard.say_of_check(lab, state, "no node in zone b")
    until(lab, "all is let go", lambda: not lab.names(HELD))
    if state == "Rejected":
        until(
            lab, "the remedy is told", lambda: "suspend the run and resume it" in lab.condition("Admitted")["message"]
        )
        until(lab, "the quota is free", lambda: yard.reserved() == NOTHING)
        for wish in ("true", "false"):
            lab.kubectl("patch", "tr", "demo", "--type=merge", "-p", f'{{"spec": {{"suspend": {wish}}}}}')
            until(lab, "it is heeded", lambda wish=wish: (lab.phase() == "Suspended") == (wish == "true"))
    words = f"AdmissionCheck {yard.name} is Pending"
    until(lab, "it has quota and waits", lambda: words in lab.condition("Admitted").get("message", ""))
    yard.say_of_check(lab, "Ready", "")
    work(lab, attempt=1)
    assert lab.get("tr", "demo")["status"]["restarts"] == 0


@pytest.fixture
def impatient(kueue: TestCluster) -> Iterator[None]:
    """Kueue takes the place of what is not ready in time."""
    parts, kubectl = kueue.tool.parts(kueue.tool.spec(kueue.name)), kueue.tool.kubectl(kueue.name)
    strategy = {"timestamp": "Eviction", "backoffBaseSeconds": 1}
    waits = {"timeout": "120s", "recoveryTimeout": "20s", "requeuingStrategy": strategy}
    parts.kueue.stop()
    parts.kueue.start(kubectl, waitForPodsReady=waits)
    yield
    parts.kueue.stop()
    parts.kueue.start(kubectl)


@pytest.mark.usefixtures("impatient")
def test_pods_that_are_not_ready_in_time_lose_their_place_and_get_it_back(yard: Yard) -> None:
    yard.open(ENOUGH)
    lab = yard.add("one")
    lab.apply_run(queueName="team", restart={"limit": 1, "backoffSeconds": 0})
    until(lab, "it is admitted", lambda: lab.names("pods"))
    old_place = place(lab)
    wait_until_it_was_too_late(lab)
    work(lab)
    until(lab, "Kueue is told", lambda: lab.told_of_workload().get("PodsReady") == "True")
    lab.become(lab.trainer_pod(0), ended(1, "connection reset"))
    assert lab.trainer_pod(1), "which nobody starts"
    wait_until_it_was_too_late(lab)
    work(lab, attempt=2)
    until(lab, "Kueue is told", lambda: lab.told_of_workload().get("PodsReady") == "True")
    assert place(lab) == old_place
    assert lab.get("tr", "demo")["status"]["restarts"] == 1


def wait_until_it_was_too_late(lab: Lab) -> None:
    before, words = engine_uids(lab), "Exceeded the PodsReady timeout"
    until(lab, "it is told", lambda: words in lab.condition("Admitted").get("message", ""))
    until(lab, "all is let go", lambda: before.isdisjoint(engine_uids(lab)))


def engine_uids(lab: Lab) -> set[str]:
    """Of pods; a trainer's that failed stay for their logs."""
    selector = "sweyard.dev/component=engine"
    return set(lab.kubectl("get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.uid}").split())
