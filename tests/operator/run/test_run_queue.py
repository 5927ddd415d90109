"""A run in a Kueue queue: admitted whole, evicted whole, queued again, and nothing held in between."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.plan.plan import Refusal, RefusalReason
from sweyard_operator.resources import (
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    ROLLOUT_POOLS,
    STATEFUL_SETS,
    WORKLOADS,
)
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

IMAGES = {"images": ["registry.example/task:1"]}
KUEUE = "kueue.x-k8s.io"
CPU = {"device": "cpu", "dtype": "float32"}


@pytest.fixture
def queued(make_world: Make) -> RunWorld:
    world = make_world(queueName="team", images=IMAGES, inference={"replicas": 2}, restart={"backoffSeconds": 0})
    world.settle()
    return world


@pytest.fixture
def admitted(queued: RunWorld) -> RunWorld:
    """It has been admitted, and runs."""
    queued.admit()
    start(queued, 0)
    return queued


def start(world: RunWorld, attempt: int) -> None:
    world.settle()
    world.serve()
    world.settle()
    world.run_gang(attempt)
    world.settle()


def held(world: RunWorld) -> list[str]:
    kinds = (JOBS, STATEFUL_SETS, DEPLOYMENTS, ROLLOUT_POOLS)
    return [name for kind in kinds for name in world.names(kind)] + list(world.pods)


def workload(world: RunWorld) -> dict[str, Any]:
    return world.objects[WORKLOADS, "demo"]


def told(world: RunWorld) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in workload(world)["status"]["conditions"]}


def evict(world: RunWorld, reason: str = "Preempted") -> None:
    world.say_of_workload(Evicted=("True", reason, "preempted to accommodate a workload of team-b"))
    world.settle()


def test_before_its_admission_there_is_its_place_in_the_queue_and_nothing_else(queued: RunWorld) -> None:
    assert list(queued.objects) == [(WORKLOADS, "demo")]
    assert queued.run["status"]["phase"] == "Pending"
    assert (queued.condition("Admitted")["status"], queued.condition("Admitted")["reason"]) == ("False", "Queued")
    assert "startTime" not in queued.run["status"]
    queued.wait(3_600)
    assert queued.step().requeue_after_seconds == 10


def test_its_workload_counts_every_pod_of_the_run(queued: RunWorld) -> None:
    spec = workload(queued)["spec"]
    assert spec["queueName"] == "team"
    counts = {one["name"]: one["count"] for one in spec["podSets"]}
    assert counts.keys() == {"trainer", "engine", "gateway", "sandbox"}
    assert (counts["trainer"], counts["engine"], counts["gateway"]) == (1, 2, 1)
    for one in spec["podSets"]:
        assert one["template"]["spec"]["containers"][0]["resources"]
        assert one["template"]["metadata"].keys() <= {"labels", "annotations"}
    owner = workload(queued)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainingRun", "run-uid", True)


@pytest.mark.parametrize(
    ("named", "reference"),
    [
        ({"trainer": {**CPU, "priorityClassName": "high"}}, ("scheduling.k8s.io", "PriorityClass")),
        ({"workloadPriorityClassName": "high"}, (KUEUE, "WorkloadPriorityClass")),
        (
            {"workloadPriorityClassName": "high", "trainer": {**CPU, "priorityClassName": "low"}},
            (KUEUE, "WorkloadPriorityClass"),
        ),
    ],
    ids=["of its pods", "of its place", "of its place before that of its pods"],
)
def test_its_workload_has_the_priority(make_world: Make, named: dict[str, Any], reference: tuple[str, str]) -> None:
    world = make_world(queueName="team", **named)
    world.classes |= {"high": 100, "low": 1}
    world.settle()
    spec = workload(world)["spec"]
    group, kind = reference
    assert spec["priority"] == 100
    assert spec["priorityClassRef"] == {"group": group, "kind": kind, "name": "high"}


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (
            {"workloadPriorityClassName": "high"},
            'WorkloadPriorityClass "high" of workloadPriorityClassName does not exist: make it, or suspend the run and '
            "name another",
        ),
        (
            {"trainer": {**CPU, "priorityClassName": "high"}},
            'PriorityClass "high" of trainer.priorityClassName does not exist: make it, or make the run anew with '
            "another",
        ),
    ],
    ids=["Kueue's", "of the pods"],
)
def test_a_class_that_does_not_exist_is_told_and_waited_for(make_world: Make, named: dict[str, Any], told: str) -> None:
    world = make_world(queueName="team", **named)
    world.settle()
    assert not world.objects
    progressing = world.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "PriorityClassMissing")
    assert progressing["message"] == told
    world.classes["high"] = 100
    world.settle()
    assert workload(world)["spec"]["priority"] == 100
    del world.classes["high"]
    world.settle()
    assert world.condition("Progressing")["reason"] == "Queued", "Kueue knows its value"


def test_tries_in_vain_to_be_placed_are_not_forgotten_in_the_queue(queued: RunWorld) -> None:
    queued.run["status"]["placementFailures"] = 2
    queued.step()
    assert queued.run["status"]["placementFailures"] == 2


def test_kueues_own_words_say_why_it_waits(queued: RunWorld) -> None:
    words = "couldn't assign flavors to pod set trainer: insufficient quota for nvidia.com/gpu in flavor default"
    queued.say_of_workload(QuotaReserved=("False", "Pending", words))
    queued.settle()
    assert queued.condition("Progressing")["message"] == f"Pending: waits in LocalQueue team (Pending): {words}"


def test_children_of_an_admitted_run_are_not_queued_again(admitted: RunWorld) -> None:
    assert admitted.run["status"]["phase"] == "Running"
    assert admitted.condition("Admitted")["message"] == "admitted by ClusterQueue lab"
    assert told(admitted)["PodsReady"] == "True"
    for (kind, name), item in admitted.objects.items():
        assert not [label for label in item["metadata"].get("labels", {}) if KUEUE in label], (kind.kind, name)
        assert "suspend" not in item.get("spec", {})


def test_pods_go_where_the_quota_lies(queued: RunWorld) -> None:
    taint = {"key": "team", "operator": "Exists"}
    queued.flavors["spot"] = {"spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [taint]}}
    queued.admit("spot")
    start(queued, 0)
    for kind, name in ((JOBS, "demo-trainer-0"), (STATEFUL_SETS, "demo-engine"), (DEPLOYMENTS, "demo-gateway")):
        pod = queued.objects[kind, name]["spec"]["template"]["spec"]
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "spot"}, [taint]), name
    sandbox = queued.objects[ROLLOUT_POOLS, "demo"]["spec"]["template"]
    assert (sandbox["nodeSelector"], sandbox["tolerations"]) == ({"pool": "spot"}, [taint])


def check(world: RunWorld, state: str, message: str = "", **update: Any) -> None:
    """The controller of an AdmissionCheck writes its state, and what it has for all pods."""
    names = [one["name"] for one in workload(world)["spec"]["podSets"]]
    updates = [{"name": name, **update} for name in names] if update else []
    written = {"name": "provision", "state": state, "message": message, "podSetUpdates": updates}
    workload(world).setdefault("status", {})["admissionChecks"] = [written]
    world.settle()


@pytest.mark.parametrize("state", ["Pending", "Retry", "Rejected"])
def test_a_check_that_is_not_ready_is_waited_for_in_its_own_words(queued: RunWorld, state: str) -> None:
    queued.say_of_workload(QuotaReserved=("True", "QuotaReserved", "Quota reserved in ClusterQueue lab"))
    check(queued, state, "no node in zone b")
    assert queued.condition("Admitted")["message"] == (
        "waits in LocalQueue team (QuotaReserved): Quota reserved in ClusterQueue lab; "
        f"AdmissionCheck provision is {state}: no node in zone b"
    )
    assert held(queued) == []


def test_a_place_that_was_deactivated_is_told_with_the_remedy(queued: RunWorld) -> None:
    workload(queued)["spec"]["active"] = False
    queued.say_of_workload(QuotaReserved=("False", "Pending", "The workload is deactivated"))
    queued.settle()
    assert queued.condition("Admitted")["message"] == (
        "waits in LocalQueue team (Pending): The workload is deactivated; suspend the run and resume it to line up anew"
    )


def test_pods_get_what_checks_and_flavors_give_them_beside_their_own(queued: RunWorld) -> None:
    taint, other = ({"key": key, "operator": "Exists"} for key in ("team", "reserved"))
    queued.flavors["spot"] = {"spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [taint]}}
    labels = {"cost-centre": "7", "sweyard.dev/run": "other"}
    given = {"annotations": {"provisioned": "by-check"}, "nodeSelector": {"zone": "b"}, "tolerations": [taint, other]}
    check(queued, "Ready", labels=labels, **given)
    queued.admit("spot")
    start(queued, 0)
    for kind, name in ((JOBS, "demo-trainer-0"), (STATEFUL_SETS, "demo-engine"), (DEPLOYMENTS, "demo-gateway")):
        pod = queued.objects[kind, name]["spec"]["template"]
        assert pod["metadata"]["annotations"] == {"provisioned": "by-check"}, name
        assert pod["metadata"]["labels"]["cost-centre"] == "7", name
        assert pod["metadata"]["labels"]["sweyard.dev/run"] == "demo", "what selects it stays"
        assert pod["spec"]["nodeSelector"] == {"pool": "spot", "zone": "b"}, name
        assert pod["spec"]["tolerations"] == [taint, other], name
    sandbox = queued.objects[ROLLOUT_POOLS, "demo"]["spec"]["template"]
    assert (sandbox["nodeSelector"], sandbox["tolerations"]) == ({"pool": "spot", "zone": "b"}, [taint, other])
    assert (sandbox["labels"], sandbox["annotations"]) == (labels, {"provisioned": "by-check"})


def test_kueue_is_told_when_pods_are_lost_and_recovered(admitted: RunWorld) -> None:
    def pods_ready() -> tuple[str, str]:
        (one,) = (entry for entry in workload(admitted)["status"]["conditions"] if entry["type"] == "PodsReady")
        return one["status"], one["reason"]

    assert pods_ready() == ("True", "Started")
    for attempt in (0, 1):
        admitted.end_gang(attempt, exit_code=1)
        admitted.settle()
        assert pods_ready() == ("False", "WaitForRecovery")
        admitted.run_gang(attempt + 1)
        admitted.settle()
        assert pods_ready() == ("True", "Recovered")
    evict(admitted, "PodsReadyTimeout")
    admitted.bury_pods()
    admitted.settle()
    assert pods_ready() == ("False", "WaitForStart")


def test_an_evicted_run_saves_ends_and_only_then_gives_back_its_quota(admitted: RunWorld) -> None:
    evict(admitted)
    assert admitted.pods["demo-trainer-0-0"]["metadata"]["deletionTimestamp"]
    assert admitted.names(STATEFUL_SETS) == ["demo-engine"], "engines serve until the trainer has saved"
    assert (told(admitted)["QuotaReserved"], told(admitted)["Admitted"]) == ("True", "True")
    assert "Preempted" in admitted.condition("Admitted")["message"]
    admitted.bury_pods()
    admitted.settle()
    assert held(admitted) == []
    assert {
        kind: told(admitted)[kind] for kind in ("QuotaReserved", "Admitted", "PodsReady", "Requeued", "Evicted")
    } == {
        "QuotaReserved": "False",
        "Admitted": "False",
        "PodsReady": "False",
        "Requeued": "True",
        "Evicted": "True",
    }
    assert "admission" not in workload(admitted)["status"]
    assert admitted.names(IMAGE_CACHES) == ["demo"], "what was pulled stays"


@pytest.mark.parametrize(
    ("reason", "at_once"),
    [
        ("Preempted", "True"),
        ("NodeFailures", "True"),
        ("AdmissionCheck", "False"),
        ("PodsReadyTimeout", "False"),
        ("Deactivated", "False"),
        ("ClusterQueueStopped", "False"),
        ("LocalQueueStopped", "False"),
    ],
)
def test_kueue_decides_when_an_evicted_run_lines_up_again(admitted: RunWorld, reason: str, at_once: str) -> None:
    evict(admitted, reason)
    admitted.bury_pods()
    admitted.settle()
    assert told(admitted)["Requeued"] == at_once


def test_an_evicted_run_comes_back_as_a_new_attempt_in_its_old_place(admitted: RunWorld) -> None:
    place = workload(admitted)["metadata"]["uid"]
    for attempt in (1, 2):
        evict(admitted)
        admitted.bury_pods()
        admitted.settle()
        admitted.admit()
        start(admitted, attempt)
        assert admitted.names(JOBS) == [f"demo-trainer-{attempt}"]
        assert admitted.run["status"]["phase"] == "Running"
    assert workload(admitted)["metadata"]["uid"] == place
    assert (admitted.run["status"]["attempts"], admitted.run["status"]["restarts"]) == (3, 0)


def test_a_failure_before_an_eviction_is_not_counted_again_after_it(make_world: Make) -> None:
    world = make_world(queueName="team", restart={"limit": 1, "backoffSeconds": 0})
    world.settle()
    world.admit()
    start(world, 0)
    world.end_gang(0, exit_code=1)
    world.settle()
    world.run_gang(1)
    world.settle()
    evict(world)
    world.bury_pods()
    world.settle()
    world.admit()
    start(world, 2)
    status = world.run["status"]
    assert (status["phase"], status["attempts"], status["restarts"]) == ("Running", 3, 1)


def test_a_place_that_somebody_deleted_ends_the_run_and_is_asked_for_again(admitted: RunWorld) -> None:
    del admitted.objects[WORKLOADS, "demo"]
    admitted.settle()
    admitted.bury_pods()
    admitted.settle()
    assert held(admitted) == []
    assert admitted.names(WORKLOADS) == ["demo"]


@pytest.mark.parametrize("ending", ["suspended", "over"])
def test_a_run_that_rests_holds_no_quota(admitted: RunWorld, ending: str) -> None:
    if ending == "suspended":
        admitted.suspend(True)
    else:
        admitted.end_gang(0, exit_code=0)
    admitted.settle()
    admitted.bury_pods()
    admitted.settle()
    assert not admitted.names(WORKLOADS)
    assert admitted.run["status"]["phase"] == ("Suspended" if ending == "suspended" else "Succeeded")
    assert not admitted.condition("Admitted")


def test_the_queue_may_be_changed_or_left_while_the_run_is_suspended(admitted: RunWorld) -> None:
    for queue in ("other", None):
        admitted.suspend(True)
        admitted.settle()
        admitted.bury_pods()
        admitted.settle()
        admitted.run["spec"]["queueName"] = queue
        admitted.suspend(False)
        admitted.settle()
        if queue is not None:
            assert workload(admitted)["spec"]["queueName"] == queue
            assert held(admitted) == []
    assert not admitted.names(WORKLOADS)
    assert admitted.names(STATEFUL_SETS) == ["demo-engine"]


def test_a_run_without_its_data_does_not_line_up(make_world: Make) -> None:
    world = make_world(queueName="team")
    world.datasets = {"tiny": None}
    world.settle()
    assert not world.objects
    assert world.condition("Progressing")["reason"] == "DatasetMissing"
    world.datasets = {"tiny": ()}
    world.settle()
    assert world.names(WORKLOADS) == ["demo"]


def test_a_cluster_without_kueue_is_told(make_world: Make) -> None:
    world = make_world(queueName="team")
    words = "this cluster knows no Workload of kueue.x-k8s.io/v1beta2"
    world.refusals = (Refusal("Workload", "demo", RefusalReason.NOT_SERVED, words),)
    world.step()
    progressing = world.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "QueueMissing")
    assert progressing["message"] == (
        "this cluster knows no Workload of kueue.x-k8s.io/v1beta2: install Kueue 0.15 or later, or suspend the run and "
        "take its queueName away"
    )


def test_a_foreign_workload_of_the_runs_name_is_a_conflict(make_world: Make) -> None:
    world = make_world(queueName="team")
    world.add({"apiVersion": f"{KUEUE}/v1beta2", "kind": "Workload", "metadata": {"name": "demo"}, "spec": {}})
    world.settle()
    assert world.condition("Progressing")["reason"] == "NameConflict"
    assert held(world) == []
