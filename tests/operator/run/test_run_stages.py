"""From apply to a running trainer: what exists at each stage, and what the conditions say."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.plan.plan import Plan, Refusal, RefusalReason
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    ROLLOUT_POOLS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

GPU = {"device": "cuda", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
EXTERNAL = {"placement": "external", "url": "https://engine.example"}
WHOLE: dict[str, Any] = {
    "model": {"scratch": {}},
    "agent": {"type": "short"},
    "trainer": {"device": "cpu", "dtype": "float32"},
}


def test_foundation_comes_before_any_pod(make_world: Make) -> None:
    world = make_world()
    world.step()
    assert world.names(CONFIG_MAPS) == ["demo-config"]
    assert world.names(PERSISTENT_VOLUME_CLAIMS) == world.names(ROLLOUT_POOLS) == ["demo"]
    assert world.names(SERVICE_ACCOUNTS) == ["demo-trainer"]
    assert world.names(ROLE_BINDINGS) == ["demo-holder", "demo-trainer"]
    assert world.names(NETWORK_POLICIES) == world.names(SERVICES) == ["demo-engine", "demo-gateway", "demo-trainer"]
    assert not world.names(STATEFUL_SETS)
    assert not world.names(DEPLOYMENTS)


def test_trainer_waits_for_engines_and_pool(make_world: Make) -> None:
    world = make_world()
    world.settle()
    assert world.names(STATEFUL_SETS) == ["demo-engine"]
    assert world.names(DEPLOYMENTS) == ["demo-gateway"]
    assert not world.names(JOBS)
    assert world.run["status"]["phase"] == "Sandboxes"
    assert world.condition("TrainerReady")["message"] == "attempt 0 waits for SandboxesReady, InferenceReady"


@pytest.mark.parametrize(("replicas", "engines"), [(1, "1 engine"), (2, "2 engines")])
def test_engines_that_serve_are_counted(running: Make, replicas: int, engines: str) -> None:
    world = running(inference={"replicas": replicas})
    assert world.condition("InferenceReady")["message"] == f"{engines} and the gateway serve"


def test_trainer_starts_when_all_is_ready(running: Make) -> None:
    world = running()
    assert world.names(JOBS) == ["demo-trainer-0"]
    assert world.run["status"]["phase"] == "Running"
    for kind in ("ImagesReady", "SandboxesReady", "InferenceReady", "TrainerReady", "Progressing"):
        assert world.condition(kind)["status"] == "True", kind
    assert world.condition("Succeeded")["status"] == world.condition("Failed")["status"] == "False"
    assert world.run["status"]["startTime"] == "2030-01-01T00:00:00Z"


def test_every_start_but_the_status_may_be_lost_to_a_killed_operator(make_world: Make) -> None:
    world = make_world()
    for _ in range(4):
        world.step(writes_status=False)
    world.serve()
    for _ in range(4):
        world.step(writes_status=False)
    assert world.names(JOBS) == ["demo-trainer-0"]


@pytest.mark.parametrize(
    ("changes", "kinds", "reason"),
    [
        pytest.param({"inference": {"engine": "transformers"}}, [], "Embedded", id="embedded"),
        pytest.param(
            {"inference": {"placement": "colocated"}, "trainer": GPU}, ["Deployment"], "Colocated", id="colocated"
        ),
        pytest.param(
            {"inference": EXTERNAL},
            ["Deployment"],
            "External",
            id="external",
        ),
    ],
)
def test_placements_without_engine_pods(running: Make, changes: dict[str, Any], kinds: list[str], reason: str) -> None:
    world = running(**changes)
    servers = [kind.kind for kind, _ in world.objects if kind in (STATEFUL_SETS, DEPLOYMENTS)]
    assert servers == kinds
    assert world.condition("InferenceReady")["reason"] == reason
    assert world.run["status"]["phase"] == "Running"


def test_images_are_waited_for(make_world: Make) -> None:
    world = make_world(images={"images": ["registry.example/task:1"], "copies": 1})
    world.settle()
    world.serve()
    world.say(IMAGE_CACHES, "demo", "Ready", "False", "0 of 1 images are on their nodes")
    world.settle()
    assert world.run["status"]["phase"] == "Images"
    assert not world.names(JOBS)
    world.say(IMAGE_CACHES, "demo", "Ready", "True")
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]
    assert world.objects[ROLLOUT_POOLS, "demo"]["spec"]["imageCacheRef"] == "demo"


@pytest.mark.parametrize(
    ("cached", "starts"), [pytest.param(3, True, id="some cached"), pytest.param(0, False, id="none cached")]
)
def test_one_bad_image_does_not_hold_up_the_others(make_world: Make, cached: int, starts: bool) -> None:
    world = make_world(images={"images": ["registry.example/task:1"]})
    world.settle()
    world.serve()
    world.say(IMAGE_CACHES, "demo", "Ready", "False", "1 image cannot be pulled")
    world.say(IMAGE_CACHES, "demo", "Degraded", "True", "registry.example/task:1 on node a: NotFound")
    world.objects[IMAGE_CACHES, "demo"]["status"]["cached"] = cached
    world.settle()
    assert bool(world.names(JOBS)) == starts
    assert world.condition("ImagesReady")["reason"] == "ImagePull"
    assert "NotFound" in world.condition("ImagesReady")["message"]


def test_a_run_without_copies_has_a_cache_that_keeps_what_sandboxes_bring(make_world: Make) -> None:
    world = make_world(images={"images": ["registry.example/task:1"], "copies": 0})
    world.settle()
    assert world.objects[IMAGE_CACHES, "demo"]["spec"]["copies"] == 0
    assert world.objects[ROLLOUT_POOLS, "demo"]["spec"]["imageCacheRef"] == "demo"


def test_no_cache_where_no_image_is_named(make_world: Make) -> None:
    world = make_world(images={})
    world.settle()
    assert not world.names(IMAGE_CACHES)
    assert world.condition("ImagesReady")["reason"] == "NotNeeded"


def test_shared_pool_is_used_and_not_made(make_world: Make) -> None:
    world = make_world(sandboxes={"poolRef": "shared"}, preset=None, **WHOLE)
    world.settle()
    assert not world.names(ROLLOUT_POOLS)
    assert world.condition("SandboxesReady")["reason"] == "PoolMissing"
    assert "RolloutPool shared does not exist" in world.condition("SandboxesReady")["message"]


SUPERVISED: dict[str, Any] = {
    "mode": "sft",
    "tasks": {"train": {"dataset": "tiny"}},
    "sft": {"datasets": ["/data/chats.jsonl"]},
    "images": {"images": ["registry.example/task:1"]},
}


def test_a_run_that_only_learns_from_recordings_has_its_trainer_and_nothing_else(make_world: Make) -> None:
    world = make_world(**SUPERVISED)
    world.settle()
    pods = {kind.kind for kind, _ in world.objects} & {"StatefulSet", "Deployment", "RolloutPool", "ImageCache", "Job"}
    assert pods == {"Job"}
    assert world.names(SERVICES) == world.names(NETWORK_POLICIES) == ["demo-trainer"]
    assert world.names(ROLE_BINDINGS) == ["demo-trainer"]
    for kind in ("ImagesReady", "SandboxesReady", "InferenceReady"):
        assert world.condition(kind)["reason"] == "NotNeeded"
    world.run_gang(0)
    world.settle()
    assert world.run["status"]["phase"] == "Running"
    world.end_gang(0, exit_code=0)
    world.settle()
    assert world.run["status"]["phase"] == "Succeeded"


def test_one_that_also_evaluates_has_engines_and_sandboxes(make_world: Make) -> None:
    world = make_world(**{**SUPERVISED, "tasks": {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny"}]}})
    world.settle()
    assert world.names(STATEFUL_SETS) == ["demo-engine"]
    assert world.names(DEPLOYMENTS) == ["demo-gateway"]
    assert world.names(ROLLOUT_POOLS) == world.names(IMAGE_CACHES) == ["demo"]
    assert not world.names(JOBS)


def test_a_shared_pool_is_not_waited_for_where_nothing_is_attempted(make_world: Make) -> None:
    world = make_world(preset=None, **{**SUPERVISED, **WHOLE}, sandboxes={"poolRef": "shared"}, inference=EXTERNAL)
    world.settle()
    job = world.objects[JOBS, "demo-trainer-0"]
    env = {entry["name"]: entry.get("value") for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["SWEYARD_ENGINE_URLS"] == ""
    assert "SWEYARD_GATEWAY_URL" not in env


def test_existing_claim_is_used_and_not_made(make_world: Make) -> None:
    world = make_world(storage={"claimName": "data"})
    world.settle()
    assert not world.names(PERSISTENT_VOLUME_CLAIMS)
    pod = world.objects[STATEFUL_SETS, "demo-engine"]["spec"]["template"]["spec"]
    assert {"name": "storage", "persistentVolumeClaim": {"claimName": "data"}} in pod["volumes"]


def test_wrong_spec_is_a_condition_and_makes_nothing(make_world: Make) -> None:
    world = make_world(preset="tinny")
    world.settle()
    assert not world.objects
    assert world.condition("InvalidSpec")["status"] == "True"
    assert world.condition("Progressing")["reason"] == "InvalidSpec"
    assert "tinny" in world.condition("InvalidSpec")["message"]
    world.run["spec"]["preset"] = "tiny"
    world.settle()
    assert not world.condition("InvalidSpec")
    assert world.names(CONFIG_MAPS) == ["demo-config"]


def test_too_long_a_name_is_refused_in_a_sentence(make_world: Make) -> None:
    world = make_world()
    world.run["metadata"]["name"] = "x" * 41
    assert world.plan().create == ()
    world.step()
    assert "longer than 40 characters" in world.condition("InvalidSpec")["message"]


def test_somebody_elses_object_is_never_adopted(make_world: Make) -> None:
    world = make_world()
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo-config"}, "data": {"k": "v"}}
    world.add(foreign)
    world.settle()
    assert world.condition("Progressing")["reason"] == "NameConflict"
    assert 'ConfigMap "demo-config" exists and is not this run\'s' in world.condition("Progressing")["message"]
    assert world.objects[CONFIG_MAPS, "demo-config"]["data"] == {"k": "v"}
    assert not world.names(STATEFUL_SETS)
    del world.objects[CONFIG_MAPS, "demo-config"]
    world.settle()
    assert world.names(STATEFUL_SETS) == ["demo-engine"]


def test_foreign_job_of_the_trainers_name_is_a_conflict(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.add(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "demo-trainer-0"}, "spec": {"suspend": True}}
    )
    world.serve()
    world.settle()
    assert world.condition("Progressing")["reason"] == "NameConflict"
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_refusals_are_told_in_the_api_servers_words(make_world: Make) -> None:
    world = make_world()
    words = "exceeded quota: small, requested: requests.storage=2Gi"
    world.refusals = (Refusal("PersistentVolumeClaim", "demo", RefusalReason.QUOTA_EXCEEDED, words),)
    world.settle()
    progressing = world.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "QuotaExceeded")
    assert "exceeded quota: small" in progressing["message"]


def test_missing_dataset_names_the_command_that_makes_it(make_world: Make) -> None:
    world = make_world()
    world.datasets = {"tiny": None}
    world.settle()
    assert world.condition("Progressing")["reason"] == "DatasetMissing"
    assert "sweyard tasks push tiny --namespace lab" in world.condition("Progressing")["message"]
    assert not world.names(STATEFUL_SETS)


def test_stored_config_outlives_a_change_of_the_spec(running: Make) -> None:
    world = running()
    stored, steps = world.objects[CONFIG_MAPS, "demo-config"], world.run["status"]["totalSteps"]
    assert stored["immutable"]
    world.run["spec"]["steps"] = 7
    world.settle()
    assert world.objects[CONFIG_MAPS, "demo-config"] == stored
    assert world.run["status"]["totalSteps"] == steps


def test_an_operator_that_is_older_than_the_run_says_so_and_leaves_it_as_it_is(running: Make) -> None:
    world = running()
    world.report(0, phase="rl", step=12, totalSteps=30)
    world.settle()
    before = dict(world.run["status"])
    stored = world.objects[CONFIG_MAPS, "demo-config"]["data"]
    stored["config.yaml"] += "future: 1\n"
    plan = world.step()
    assert plan == Plan(status=plan.status, events=plan.events)
    progressing = world.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "InvalidSpec")
    assert progressing["message"].startswith(
        "ConfigMap demo-config, with which the run began, is of another version of sweyard (future"
    )
    assert progressing["message"].endswith(
        "install the chart of that version or a later one; until then the run is left as it is"
    )
    after = {**world.run["status"], "conditions": None}
    assert after == {**before, "conditions": None}


def test_deleted_run_is_left_to_the_garbage_collector(make_world: Make) -> None:
    world = make_world()
    world.run["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    plan = world.plan()
    assert not plan.create
    assert not plan.delete
    assert plan.status is None


def test_trainers_report_is_copied_and_never_written(running: Make) -> None:
    world = running()
    world.report(0, phase="rl", step=12, totalSteps=30, progressPercentage=40, metrics={"rewardMean": 0.5})
    plan = world.step()
    assert plan.status is not None
    assert "trainer" not in plan.status
    assert plan.status["step"] == 12
    assert plan.status["metrics"] == {"rewardMean": 0.5}


def test_evaluating_is_a_phase_of_the_present_attempt_only(running: Make) -> None:
    world = running()
    world.report(0, phase="evaluating")
    world.settle()
    assert world.run["status"]["phase"] == "Evaluating"
    world.report(7, phase="evaluating")
    world.settle()
    assert world.run["status"]["phase"] == "Running"


def test_silent_trainer_is_told(running: Make) -> None:
    world = running()
    world.report(0, phase="rl")
    world.wait(16 * 60)
    world.settle()
    assert world.condition("Progressing")["reason"] == "NoReport"
    assert "kubectl logs job/demo-trainer-0" in world.condition("Progressing")["message"]


@pytest.mark.parametrize("updated_at", ["2029-12-31T20:00:00Z", "2030-01-01T04:00:00Z"], ids=["behind", "ahead"])
def test_a_trainer_whose_clock_is_wrong_is_judged_by_the_api_servers(running: Make, updated_at: str) -> None:
    world = running()
    world.report(0, phase="rl", updatedAt=updated_at)
    world.settle()
    assert world.condition("Progressing")["reason"] == "Running"
    world.wait(16 * 60)
    world.settle()
    assert world.condition("Progressing")["reason"] == "NoReport"


def test_a_settled_run_writes_nothing(running: Make) -> None:
    world = running()
    plan = world.step()
    assert not plan.create
    assert not plan.delete
    assert not plan.events
    assert {key: value for key, value in (plan.status or {}).items() if value is not None} == world.run["status"]


@pytest.mark.parametrize(
    ("reason", "ready"),
    [pytest.param("SandboxesStarting", "True", id="churn"), pytest.param("ImagePull", "False", id="trouble")],
)
def test_under_a_trainer_only_trouble_makes_sandboxes_unready(running: Make, reason: str, ready: str) -> None:
    world = running()
    pool = world.objects[ROLLOUT_POOLS, "demo"]
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": "1 of 9 wanted sandboxes are ready"}
    pool["status"] = {"conditions": [condition]}
    world.settle()
    assert world.condition("SandboxesReady")["status"] == ready


@pytest.mark.parametrize("phase", ["finished", "rl"])
def test_pods_that_end_when_all_work_is_done_are_no_step_back(running: Make, phase: str) -> None:
    world = running()
    world.run_gang(0)
    world.report(0, phase=phase)
    world.step()
    for pod in world.pods.values():
        if pod["metadata"]["name"].startswith("demo-trainer-0"):
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
    world.step()
    is_done = phase == "finished"
    assert world.run["status"]["phase"] == ("Running" if is_done else "Starting")
    assert world.condition("TrainerReady")["status"] == str(is_done)
