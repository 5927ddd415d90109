"""Somebody's hands on what a run has made: it is as it should be again, or the run says what is the matter."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.operator.run.test_run_chaos import NAMESPACE, World, play

from sweyard_operator.plan.plan import Plan, Refusal, RefusalReason
from sweyard_operator.resources import (
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from sweyard_operator.testing.fake_controllers import Ending
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

SERVERS = [(STATEFUL_SETS, "demo-engine", 2), (DEPLOYMENTS, "demo-gateway", 1)]


@pytest.mark.parametrize(("resource", "name", "wanted"), SERVERS)
@pytest.mark.parametrize("count", [0, 5])
def test_servers_that_somebody_scaled_have_their_number_again(
    running: Make, resource: Resource, name: str, wanted: int, count: int
) -> None:
    world = running(inference={"replicas": 2})
    world.objects[resource, name]["spec"]["replicas"] = count
    world.settle()
    assert world.objects[resource, name]["spec"]["replicas"] == wanted


def test_a_gateway_that_is_reached_anew_has_the_address_that_its_trainer_knows(running: Make) -> None:
    world = running()
    (container,) = world.objects[JOBS, "demo-trainer-0"]["spec"]["template"]["spec"]["containers"]
    told = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert told["SWEYARD_GATEWAY_URL"] == "http://10.96.0.7:8000"
    del world.objects[SERVICES, "demo-gateway"]
    (service,) = world.step().create
    assert service["spec"]["clusterIP"] == "10.96.0.7"


def test_a_gateway_that_no_trainer_knows_may_have_any_address(make_world: Make) -> None:
    world = make_world()
    world.settle()
    del world.objects[SERVICES, "demo-gateway"]
    (service,) = world.step().create
    assert "clusterIP" not in service["spec"]


def test_a_trainer_whose_job_was_taken_away_is_ended_and_followed_by_the_next_attempt(running: Make) -> None:
    world = running()
    del world.objects[JOBS, "demo-trainer-0"]  # as kubectl delete --cascade=orphan does
    plan = world.step()
    assert [(one.resource, one.name, one.grace_period_seconds) for one in plan.delete] == [
        (PODS, "demo-trainer-0-0", None)
    ]
    assert "demo-trainer-0-0" in world.condition("TrainerReady")["message"]
    assert not world.step().delete
    world.bury_pods()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-1"]
    assert (world.run["status"]["attempts"], world.run["status"]["restarts"]) == (2, 0)


def test_servers_whose_owner_was_taken_away_go_with_a_suspension(running: Make) -> None:
    world = running()
    pods = copy.deepcopy(world.pods)
    world.suspend(True)
    world.settle()
    world.bury_pods()
    del world.objects[STATEFUL_SETS, "demo-engine"], world.objects[DEPLOYMENTS, "demo-gateway"]
    assert {"demo-engine-0", "demo-gateway-0"} < pods.keys()
    world.settle()
    world.bury_pods()
    world.settle()
    assert not world.pods
    assert world.condition("Suspended")["status"] == "True"


def change(world: World, resource: Resource, name: str, part: str, value: dict[str, Any] | None) -> None:
    """Somebody edits an object's metadata."""
    item = copy.deepcopy(world.api.store.get((resource, NAMESPACE, name)))
    assert item is not None
    item["metadata"][part] = value or {}
    world.api.store.put(resource, item)
    world.api.touch()


@pytest.mark.parametrize(("resource", "name"), [(STATEFUL_SETS, "demo-engine"), (JOBS, "demo-trainer-0")])
def test_an_object_without_its_labels_costs_a_look_every_few_seconds_and_nothing_else(
    resource: Resource, name: str
) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: world.status().get("phase") == "Running")
        change(world, resource, name, "labels", None)
        await world.pass_time(10)
        world.api.requests.clear()
        before = world.api.store.version
        await world.pass_time(60)
        asked = [request for request in world.api.requests if request[1].endswith(name)]
        assert len(asked) <= 30, "each 5 s, of two kinds that may have the name"
        changed = [change.object for change in world.api.store.history if change.version > before]
        assert not changed, changed
        status = world.status()
        assert (status["phase"], status["attempts"]) == ("Running", 1)

    play(story, [Ending(10_000, 0)])


VOLUME_TROUBLES = [
    pytest.param(
        {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}},
        "PersistentVolumeClaim demo is being deleted, and goes with the run's last pod: copy its checkpoints",
        id="deleted",
    ),
    pytest.param(
        {"spec": {"volumeName": "pv-7"}, "status": {"phase": "Lost"}},
        "PersistentVolumeClaim demo has lost its PersistentVolume pv-7: restore that, or delete the claim",
        id="lost",
    ),
]


@pytest.mark.parametrize(("state", "words"), VOLUME_TROUBLES)
def test_a_trainer_goes_on_without_its_claim_and_the_next_attempt_waits_and_holds_nothing(
    running: Make, state: dict[str, Any], words: str
) -> None:
    world = running(restart={"backoffSeconds": 0})
    claim = world.objects[PERSISTENT_VOLUME_CLAIMS, "demo"]
    for part, fields in state.items():
        claim.setdefault(part, {}).update(fields)
    world.settle()
    told = world.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "VolumeLost")
    assert words in told["message"]
    assert world.condition("TrainerReady")["status"] == "True"
    world.end_gang(0, exit_code=1)
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]
    world.wait(900)
    world.settle()
    world.bury_pods()
    world.settle()
    assert not world.names(STATEFUL_SETS)
    assert words in world.condition("Unplaced")["message"]
    del world.objects[PERSISTENT_VOLUME_CLAIMS, "demo"]  # now that no pod uses it
    world.wait(90)
    world.settle()
    world.serve()
    world.settle()
    assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["demo"]
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]


def test_a_claim_that_gets_no_volume_is_told_with_the_clusters_words(make_world: Make) -> None:
    world = make_world()
    world.settle()
    claim = world.objects[PERSISTENT_VOLUME_CLAIMS, "demo"]
    claim["status"] = {"phase": "Pending"}
    world.serve()
    world.settle()
    assert world.condition("Progressing")["status"] == "True", "it may be bound with its first pod"
    said = "no persistent volumes available for this claim and no storage class is set"
    world.warnings[claim["metadata"]["uid"]] = f"FailedBinding: {said}"
    world.settle()
    assert world.condition("Progressing")["reason"] == "VolumePending"
    assert said in world.condition("Progressing")["message"]
    assert "storage.storageClassName" in world.condition("Progressing")["message"]
    assert world.names(STATEFUL_SETS), "nothing waits for it"


def test_a_child_that_is_deleted_and_kept_is_told(running: Make) -> None:
    world = running()
    engine = world.objects[STATEFUL_SETS, "demo-engine"]["metadata"]
    engine |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["tool.example/backup"]}
    world.settle()
    assert world.condition("Progressing")["message"] == (
        'StatefulSet "demo-engine" is being deleted and not gone (kept by tool.example/backup); '
        "it is made anew when it is"
    )
    assert world.condition("TrainerReady")["status"] == "True"


def test_a_deleted_run_that_anothers_finalizer_keeps_holds_nothing(running: Make) -> None:
    world = running()
    world.run["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["tool.example/backup"]}
    world.settle()
    assert "demo-trainer-0-0" in world.condition("Progressing")["message"]
    assert world.names(STATEFUL_SETS), "it serves until the checkpoint is written"
    for _ in range(2):
        world.bury_pods()
        world.settle()
    assert not world.pods
    assert not world.names(JOBS)
    assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["demo"]
    assert world.condition("Progressing")["message"] == (
        "the run is deleted and kept by the finalizer tool.example/backup: nothing is held"
    )


@pytest.mark.parametrize("finalizer", ["orphan", "foregroundDeletion"])
def test_a_run_that_the_garbage_collector_is_at_is_left_to_it(running: Make, finalizer: str) -> None:
    world = running()
    world.run["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": [finalizer]}
    assert world.plan() == Plan()


@pytest.mark.parametrize("stays", [True, False])
def test_what_may_not_be_deleted_is_told_and_keeps_nothing_from_starting(running: Make, stays: bool) -> None:
    world = running(restart={"backoffSeconds": 0})
    world.end_gang(0, exit_code=1)
    world.refusals = (Refusal("Job", "demo-trainer-0", RefusalReason.FORBIDDEN, "not on Fridays", stays),)
    world.step()
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"][: 1 + stays]
    assert world.condition("Progressing")["message"] == "demo-trainer-0: not on Fridays"


def test_a_suspension_that_somebody_refuses_says_so(running: Make) -> None:
    world = running()
    world.suspend(True)
    world.refusals = (Refusal("Job", "demo-trainer-0", RefusalReason.FORBIDDEN, "not on Fridays", stays=True),)
    world.step()
    assert world.condition("Suspended")["message"] == "demo-trainer-0: not on Fridays"


def test_a_trainer_whose_account_was_made_anew_is_told_of_its_token(running: Make) -> None:
    world = running(restart={"backoffSeconds": 0})
    world.wait(60)
    del world.objects[SERVICE_ACCOUNTS, "demo-trainer"]
    world.settle()
    told = world.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "TokenRevoked")
    assert "kubectl delete job demo-trainer-0" in told["message"]
    del world.objects[JOBS, "demo-trainer-0"]
    world.step()
    world.bury_pods()
    world.settle()
    world.run_gang(1)
    world.settle()
    assert world.condition("Progressing")["status"] == "True"


def test_rights_that_somebody_took_are_given_again() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: world.status().get("phase") == "Running")
        address = (ROLE_BINDINGS, NAMESPACE, "demo-trainer")
        binding = world.api.store.get(address)
        assert binding is not None
        world.api.store.put(ROLE_BINDINGS, {**binding, "subjects": []})
        world.api.touch()
        await world.pass_time(10)
        now = world.api.store.get(address)
        assert now is not None
        assert now["subjects"] == binding["subjects"]
        version = now["metadata"]["resourceVersion"]
        await world.pass_time(120)
        now = world.api.store.get(address)
        assert now is not None
        assert now["metadata"]["resourceVersion"] == version, "written once"

    play(story, [Ending(10_000, 0)])
