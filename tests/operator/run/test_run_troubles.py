"""Pods that do not run: one typed reason, the cluster's own words, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.resources import DEPLOYMENTS, JOBS, STATEFUL_SETS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]


def waiting(reason: str, words: str, /, **last: Any) -> dict[str, Any]:
    status = {"name": "engine", "state": {"waiting": {"reason": reason, "message": words}}}
    return {"phase": "Pending", "containerStatuses": [status | ({"lastState": {"terminated": last}} if last else {})]}


def unscheduled(message: str) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    }


TROUBLES = [
    pytest.param(
        unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        "Unschedulable",
        "1 of 1 engine pods Unschedulable: demo-engine-0: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu; "
        "lower inference.resources, loosen inference.nodeSelector, or add nodes",
        id="no gpu",
    ),
    pytest.param(
        waiting("ImagePullBackOff", 'Back-off pulling image "registry.example/vllm:0"'),
        "ImagePull",
        'engine: Back-off pulling image "registry.example/vllm:0"; check inference.image and the pull secrets',
        id="image",
    ),
    pytest.param(
        waiting("CreateContainerConfigError", 'secret "hub" not found'),
        "ContainerConfig",
        'engine: secret "hub" not found; create what is missing, or correct the name in the spec',
        id="secret",
    ),
    pytest.param(
        waiting("CrashLoopBackOff", "back-off 40s", exitCode=1, message="ValueError: head size 16 is not supported"),
        "CrashLoop",
        "engine ended with exit code 1: ValueError: head size 16 is not supported; see kubectl logs demo-engine-0",
        id="crash",
    ),
    pytest.param(
        waiting("CrashLoopBackOff", "back-off 40s", exitCode=137, reason="OOMKilled"),
        "OOMKilled",
        "engine was killed for using more memory than its limit; raise inference.resources.limits.memory",
        id="memory",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."},
        "Evicted",
        "The node was low on resource: ephemeral-storage",
        id="evicted",
    ),
    pytest.param(
        {
            "phase": "Running",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "default-scheduler: preempting to accommodate a higher priority pod",
                }
            ],
        },
        "Evicted",
        "PreemptionByScheduler: default-scheduler: preempting",
        id="preempted",
    ),
]


@pytest.mark.parametrize(("status", "reason", "words"), TROUBLES)
def test_engine_trouble_is_named_with_its_remedy(
    make_world: Make, status: dict[str, Any], reason: str, words: str
) -> None:
    world = make_world()
    world.settle()
    world.serve()
    world.pods["demo-engine-0"]["status"] = status
    world.settle()
    for kind in ("InferenceReady", "Progressing"):
        condition = world.condition(kind)
        assert (condition["status"], condition["reason"]) == ("False", reason), kind
        assert words in condition["message"], kind
    assert world.run["status"]["phase"] == "Inference"
    assert not world.names(JOBS)


def test_mounts_that_fail_are_read_from_events(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    world.pods["demo-engine-0"]["status"] = waiting("ContainerCreating", "")
    uid = world.pods["demo-engine-0"]["metadata"]["uid"]
    world.warnings[uid] = 'FailedMount: MountVolume.SetUp failed for volume "dataset-0": configmap "tiny" not found'
    world.settle()
    assert 'configmap "tiny" not found' in world.condition("InferenceReady")["message"]


def test_quota_that_forbids_engine_pods_is_named(make_world: Make) -> None:
    world = make_world()
    world.settle()
    uid = world.objects[STATEFUL_SETS, "demo-engine"]["metadata"]["uid"]
    world.warnings[uid] = 'FailedCreate: pods "demo-engine-0" is forbidden: exceeded quota: small, limited: pods=0'
    world.settle()
    condition = world.condition("InferenceReady")
    assert condition["reason"] == "FailedCreate"
    assert "exceeded quota: small" in condition["message"]
    assert "raise the quota or lower inference.resources" in condition["message"]


REFUSED_PODS = [
    ("exceeded quota: small, limited: pods=0", "; raise the quota or lower trainer.resources"),
    ("maximum memory usage per Container is 1Gi, but limit is 4Gi", "; raise the quota or lower trainer.resources"),
    ("no PriorityClass with name nope was found", "; create what is missing, or correct the name in the spec"),
    ('pod rejected: RuntimeClass "nope" not found', "; create what is missing, or correct the name in the spec"),
    ("image is not from our registry", ""),
]


@pytest.mark.parametrize(("words", "remedy"), REFUSED_PODS)
def test_gateway_pods_that_are_refused_are_named_with_what_helps(make_world: Make, words: str, remedy: str) -> None:
    world = make_world()
    world.settle()
    world.start_pod("demo-engine-0", "engine")
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": f"forbidden: {words}"}
    world.objects[DEPLOYMENTS, "demo-gateway"]["status"] = {"conditions": [failure]}
    world.settle()
    condition = world.condition("InferenceReady")
    assert (condition["reason"], condition["message"]) == ("FailedCreate", f"forbidden: {words}{remedy}")


def test_a_claim_that_a_pod_waits_for_is_no_matter_of_nodes(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    words = '0/3 nodes are available: persistentvolumeclaim "runs" not found.'
    world.strand_pod("demo-engine-0", words)
    world.settle()
    assert world.condition("InferenceReady")["message"].endswith("; see kubectl describe pvc, and storage in the spec")


def test_a_pod_of_which_no_scheduler_says_anything_is_told(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    world.pods["demo-engine-0"] |= {"spec": {}, "status": {"phase": "Pending"}}
    world.wait(59)
    world.settle()
    assert world.condition("InferenceReady")["reason"] == "Starting"
    world.wait(1)
    world.settle()
    condition = world.condition("InferenceReady")
    assert condition["reason"] == "Unschedulable"
    assert "no scheduler has said anything of it" in condition["message"]
    uid = world.pods["demo-engine-0"]["metadata"]["uid"]
    world.warnings[uid] = 'FailedResourceClaimCreation: PodResourceClaim gpu: resourceclaimtemplate "nope" not found'
    world.settle()
    assert world.condition("InferenceReady")["message"].endswith(
        '"nope" not found; create what is missing, or correct the name in the spec'
    )


def test_quota_that_forbids_trainer_pods_is_named(running: Make) -> None:
    world = running()
    world.pods.pop("demo-trainer-0-0")
    uid = world.objects[JOBS, "demo-trainer-0"]["metadata"]["uid"]
    world.warnings[uid] = "FailedCreate: exceeded quota: small"
    world.settle()
    assert world.condition("TrainerReady")["reason"] == "FailedCreate"


def test_engine_that_loads_for_too_long_fails_its_condition_and_not_the_run(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    world.pods["demo-engine-0"]["status"] = {"phase": "Running"}
    world.wait(1801)
    world.settle()
    assert world.condition("InferenceReady")["reason"] == "StartupDeadline"
    assert "inference.startupDeadlineSeconds (1800)" in world.condition("InferenceReady")["message"]
    assert world.condition("Failed")["status"] == "False"
    world.serve()
    world.settle()
    assert world.condition("InferenceReady")["status"] == "True"


def test_dead_engine_does_not_touch_the_running_trainer(running: Make) -> None:
    world = running()
    world.pods["demo-engine-0"]["status"] = waiting("CrashLoopBackOff", "", exitCode=1, message="CUDA error")
    world.settle()
    assert world.condition("InferenceReady")["status"] == "False"
    assert world.condition("TrainerReady")["status"] == "True"
    assert world.names(JOBS) == ["demo-trainer-0"]
    assert world.run["status"]["phase"] == "Running"
    assert world.run["status"]["restarts"] == 0


def test_engine_that_runs_again_is_not_blamed_for_its_past(running: Make) -> None:
    world = running()
    ended = {"terminated": {"exitCode": 1, "message": "CUDA error"}}
    status = world.pods["demo-engine-0"]["status"]
    status["containerStatuses"] = [{"name": "engine", "state": {"running": {}}, "lastState": ended}]
    world.settle()
    assert world.condition("InferenceReady")["status"] == "True"


def test_an_engine_that_loads_again_tells_what_it_died_of(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    ended = {"terminated": {"exitCode": 1, "message": "ValueError: no available memory for the cache blocks"}}
    container = {"name": "engine", "state": {"running": {}}, "lastState": ended}
    world.pods["demo-engine-0"]["status"] = {"phase": "Running", "containerStatuses": [container]}
    world.settle()
    assert world.condition("InferenceReady")["message"] == (
        "0 of 1 engines ready; demo-engine-0 starts again: engine ended with exit code 1: ValueError: no available "
        "memory for the cache blocks; see kubectl logs demo-engine-0 --previous"
    )


def test_model_that_cannot_be_prepared_is_the_users_fault(make_world: Make) -> None:
    world = make_world()
    world.settle()
    world.serve()
    end = {"exitCode": 2, "message": "model.name is 'Qwen/Qwen9': the hub has no such model", "reason": "Error"}
    init = {"name": "prepare", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": end}}
    world.pods["demo-engine-0"]["status"] = {"phase": "Pending", "initContainerStatuses": [init]}
    world.settle()
    assert world.condition("Failed") | {"lastTransitionTime": ""} == {
        "type": "Failed",
        "status": "True",
        "reason": "UserError",
        "message": "model.name is 'Qwen/Qwen9': the hub has no such model",
        "observedGeneration": 1,
        "lastTransitionTime": "",
    }
    assert not world.names(STATEFUL_SETS)
