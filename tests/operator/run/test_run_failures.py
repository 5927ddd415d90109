"""How an attempt failed stays readable while the next one runs, and memory that ran out twice is not tried again."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.resources import JOBS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

TORCH = (
    'Traceback (most recent call last):\n  File "learner.py", line 9, in step\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
)
KILLED = {"exit_code": 137, "reason": "OOMKilled"}
ACCELERATOR = {"exit_code": 1, "said": TORCH}


def fail(world: RunWorld, attempt: int, step: int | None, end: dict[str, Any]) -> None:
    """An attempt runs, reports a step, and fails; then the next one is started."""
    world.serve()
    world.run_gang(attempt)
    if step is not None:
        world.report(attempt, step=step, phase="rl")
    world.settle()
    world.end_gang(attempt, **end)
    world.settle()


@pytest.fixture
def world(running: Make) -> RunWorld:
    return running(restart={"limit": 5, "backoffSeconds": 0})


@pytest.mark.parametrize(
    ("ends", "steps", "fails"),
    [
        pytest.param([KILLED, KILLED], [7, 7], True, id="killed at the same step twice"),
        pytest.param([ACCELERATOR, ACCELERATOR], [7, 7], True, id="CUDA at the same step twice"),
        pytest.param([KILLED, KILLED], [None, None], True, id="before the first report twice"),
        pytest.param([KILLED, KILLED], [7, 9], False, id="further on"),
        pytest.param([KILLED, ACCELERATOR], [7, 7], False, id="different memories"),
        pytest.param([KILLED, {"exit_code": 1, "said": "NCCL timeout"}], [7, 7], False, id="another cause"),
        pytest.param([{"exit_code": 1}, {"exit_code": 1}], [7, 7], False, id="what may pass"),
        pytest.param([KILLED, {"exit_code": 1}, KILLED], [7, 7, 7], False, id="not one after the other"),
    ],
)
def test_memory_that_ran_out_twice_at_one_step_is_the_users_fault(
    world: RunWorld, ends: list[dict[str, Any]], steps: list[int | None], fails: bool
) -> None:
    for attempt, (end, step) in enumerate(zip(ends, steps, strict=True)):
        fail(world, attempt, step, end)
    failed = world.condition("Failed")
    assert (failed["status"] == "True") == fails
    assert (f"demo-trainer-{len(ends)}" in world.names(JOBS)) == (not fails)
    if fails:
        assert failed["reason"] == "UserError"


def evict(world: RunWorld, name: str) -> None:
    """A drain evicts a pod, which has the time of its grace period."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    condition["message"] = "Eviction API: evicting"
    world.pods[name]["status"]["conditions"].append(condition)
    world.pods[name]["metadata"]["deletionTimestamp"] = "2030-01-01T00:05:00Z"


def test_a_drained_gang_starts_again_without_spending_a_restart(running: Make) -> None:
    world = running(restart={"limit": 0, "backoffSeconds": 0}, trainer={"device": "cpu", "replicas": 2})
    for attempt in range(3):
        world.run_gang(attempt)
        world.settle()
        evict(world, f"demo-trainer-{attempt}-1")
        world.settle()
        assert world.run["status"]["lastFailure"]["reason"] == "Disrupted"
        world.end_gang(attempt, exit_code=143)
        del world.pods[f"demo-trainer-{attempt}-1"]
        world.settle()
    assert "demo-trainer-3" in world.names(JOBS)
    assert (world.run["status"]["restarts"], world.run["status"]["attempts"]) == (0, 4)
    assert "demo-trainer-2-1: EvictionByEvictionAPI" in world.run["status"]["lastFailure"]["message"]


@pytest.mark.parametrize(("exit_code", "reason"), [(255, "Unknown"), (137, "ContainerStatusUnknown")])
def test_an_end_that_the_nodes_runtime_did_not_see_spends_no_restart(
    running: Make, exit_code: int, reason: str
) -> None:
    world = running(restart={"limit": 0, "backoffSeconds": 0})
    world.end_gang(0, exit_code=exit_code, reason=reason, said="finished")
    world.settle()
    failure = world.run["status"]["lastFailure"]
    assert (world.run["status"]["restarts"], failure["reason"]) == (0, "Disrupted")
    assert failure["message"].endswith("container runtime was away, so nobody knows how: finished")
    assert "demo-trainer-1" in world.names(JOBS)


def test_a_pod_that_filled_its_nodes_disk_spends_a_restart(running: Make) -> None:
    world = running(restart={"limit": 1, "backoffSeconds": 0})
    world.end_gang(0, exit_code=137)
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "disk"}
    world.pods["demo-trainer-0-0"]["status"] |= {"reason": "Evicted", "message": "disk", "conditions": [disruption]}
    world.settle()
    assert world.run["status"]["restarts"] == 1
    assert world.run["status"]["lastFailure"]["reason"] == "Evicted"


def test_the_verdict_names_the_remedy_and_the_log(world: RunWorld) -> None:
    fail(world, 0, 7, ACCELERATOR)
    fail(world, 1, 7, ACCELERATOR)
    message = world.condition("Failed")["message"]
    assert message.startswith("attempts 0 and 1 both ran out of memory after step 7, so another would too; ")
    assert "lower trainer.tokensPerMicrobatch" in message
    assert message.endswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_the_last_failure_is_told_while_the_next_attempt_runs_and_when_its_pods_are_gone(world: RunWorld) -> None:
    fail(world, 0, 7, {"exit_code": 1, "said": "RuntimeError: NCCL timeout"})
    world.run_gang(1)
    world.report(1, step=5, phase="rl")
    world.settle()
    told = {
        "attempt": 0,
        "step": 7,
        "reason": "Exited",
        "message": "pod demo-trainer-0-0: trainer ended with exit code 1: RuntimeError: NCCL timeout",
    }
    assert world.run["status"]["lastFailure"] == told
    del world.objects[JOBS, "demo-trainer-0"]
    del world.pods["demo-trainer-0-0"]
    world.settle()
    assert world.run["status"]["lastFailure"] == told
    assert world.run["status"]["phase"] == "Running"


def test_a_repetition_is_seen_by_an_operator_that_died_before_it_wrote_the_first_failure(world: RunWorld) -> None:
    world.report(0, step=7, phase="rl")
    world.end_gang(0, **KILLED)
    world.step(writes_status=False)
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]
    world.settle()
    fail(world, 1, 7, KILLED)
    assert world.condition("Failed")["reason"] == "UserError"
