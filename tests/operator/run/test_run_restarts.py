"""The gang's attempts: budget, back-off, first cause, and never two at once."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from sweyard_api.infrastructure import Restart
from sweyard_operator.conditions import rfc3339
from sweyard_operator.plan.restart_policy import backoff_seconds
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    ROLLOUT_POOLS,
    STATEFUL_SETS,
)
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]


def test_dead_gang_starts_again_after_its_backoff(running: Make) -> None:
    world = running(restart={"limit": 2, "backoffSeconds": 10})
    world.end_gang(0, exit_code=1, said="RuntimeError: NCCL timeout")
    plan = world.step()
    assert world.run["status"]["phase"] == "Restarting"
    assert world.condition("TrainerReady")["reason"] == "BackOff"
    assert (
        "pod demo-trainer-0-0: trainer ended with exit code 1: RuntimeError: NCCL timeout"
        in (world.condition("TrainerReady")["message"])
    )
    assert plan.requeue_after_seconds == 10
    world.wait(9)
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]
    world.wait(1)
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]
    assert (world.run["status"]["restarts"], world.run["status"]["attempts"]) == (1, 2)


def test_first_cause_is_the_pod_that_died_first(running: Make) -> None:
    world = running(trainer={"device": "cpu", "dtype": "float32", "replicas": 3})
    world.end_gang(0, exit_code=1, said="disk full", index=2)
    world.step()
    assert (
        "pod demo-trainer-0-2: trainer ended with exit code 1: disk full" in world.condition("TrainerReady")["message"]
    )


def outlive(world: RunWorld, exit_code: int) -> None:
    """Each trainer of a gang of two ends, and what a mesh added to its pod does not."""
    for name in ("demo-trainer-0-0", "demo-trainer-0-1"):
        world.end_pod(name, exit_code, "RuntimeError: NCCL timeout")
        statuses = world.pods[name]["status"]["containerStatuses"]
        mesh = {"name": "mesh", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        world.pods[name]["status"] = {"phase": "Running", "containerStatuses": [*statuses, mesh]}


def test_a_run_is_over_though_what_somebody_added_to_its_pods_runs_on(running: Make) -> None:
    world = running(trainer={"device": "cpu", "dtype": "float32", "replicas": 2})
    outlive(world, 0)
    world.wait(29)
    world.settle()
    assert world.condition("Succeeded")["status"] == "False"
    world.wait(1)
    world.settle()
    assert world.condition("Succeeded")["status"] == "True"
    assert world.names(JOBS) == []
    # They have no 300 s for a checkpoint.
    ends = [pod["metadata"]["deletionTimestamp"] for name, pod in world.pods.items() if "-trainer-" in name]
    assert ends == [rfc3339(world.now + timedelta(seconds=5))] * 2
    world.bury_pods()
    world.settle()
    assert world.names(ROLLOUT_POOLS) == []


def test_one_rank_that_has_done_its_work_ends_no_run(running: Make) -> None:
    world = running(trainer={"device": "cpu", "dtype": "float32", "replicas": 2})
    outlive(world, 0)
    world.start_pod("demo-trainer-0-1", "trainer")
    world.wait(60)
    world.settle()
    assert world.condition("Succeeded")["status"] == "False"
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_a_pod_whose_trainer_failed_is_ended_so_that_its_job_is_told(running: Make) -> None:
    world = running(trainer={"device": "cpu", "dtype": "float32", "replicas": 2})
    outlive(world, 1)
    world.wait(29)
    assert world.step().patch == ()
    world.wait(1)
    patches = world.step().patch
    assert [patch.name for patch in patches] == ["demo-trainer-0-0", "demo-trainer-0-1"]
    assert {patch.operations[-1]["path"] for patch in patches} == {"/spec/activeDeadlineSeconds"}


def test_next_attempt_waits_for_the_last_pod_of_the_old(running: Make) -> None:
    world = running(restart={"backoffSeconds": 0}, trainer={"device": "cpu", "dtype": "float32", "replicas": 2})
    world.end_gang(0, exit_code=1)
    world.pods["demo-trainer-0-1"]["status"] = {"phase": "Running"}
    world.pods["demo-trainer-0-1"]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]
    assert world.condition("TrainerReady")["reason"] == "Terminating"
    assert "demo-trainer-0-1" in world.condition("TrainerReady")["message"]
    world.bury_pods()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]


def test_budget_ends_the_run_and_names_the_last_cause(running: Make) -> None:
    world = running(restart={"limit": 1, "backoffSeconds": 0})
    world.end_gang(0, exit_code=1)
    world.settle()
    world.run_gang(1)
    world.settle()
    world.end_gang(1, exit_code=1, said="CUDA out of memory")
    world.settle()
    failed = world.condition("Failed")
    assert (failed["status"], failed["reason"]) == ("True", "RestartLimitReached")
    assert "restart.limit is 1" in failed["message"]
    assert "CUDA out of memory" in failed["message"]
    assert world.run["status"]["restarts"] == 1


@pytest.mark.parametrize("has_pod", [True, False], ids=["pod still there", "pod gone"])
def test_users_fault_is_not_retried(running: Make, has_pod: bool) -> None:
    world = running()
    world.end_gang(0, exit_code=2, said="tasks.train: no task is left after the filters; loosen tasks.train.ids")
    if not has_pod:
        world.pods.pop("demo-trainer-0-0")
    world.settle()
    failed = world.condition("Failed")
    assert (failed["status"], failed["reason"]) == ("True", "UserError")
    assert failed["message"].startswith("tasks.train: no task" if has_pod else "by the Job controller")
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_job_of_a_users_fault_stays_for_its_log(running: Make) -> None:
    world = running()
    world.end_pod("demo-trainer-0-0", 2, "model.name: there is no such model")
    world.settle()
    assert world.condition("Failed")["reason"] == "UserError"
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_success_releases_what_costs_and_keeps_what_is_read(running: Make) -> None:
    world = running()
    world.report(0, phase="finished", step=30, totalSteps=30, progressPercentage=100)
    world.end_gang(0, exit_code=0)
    world.settle()
    assert world.run["status"]["phase"] == "Succeeded"
    assert world.condition("Succeeded")["status"] == "True"
    assert world.condition("InferenceReady")["reason"] == "Released"
    assert world.run["status"]["completionTime"]
    assert world.run["status"]["step"] == 30
    assert not world.names(STATEFUL_SETS) + world.names(DEPLOYMENTS) + world.names(ROLLOUT_POOLS)
    assert world.names(JOBS) == ["demo-trainer-0"]
    assert world.names(CONFIG_MAPS)
    assert world.names(PERSISTENT_VOLUME_CLAIMS)


def test_verdict_is_written_before_anything_is_released(running: Make) -> None:
    world = running()
    world.end_gang(0, exit_code=0)
    plan = world.step()
    assert not plan.delete
    assert plan.requeue_after_seconds == 0
    assert world.condition("Succeeded")["status"] == "True"
    assert world.step().delete


def test_verdict_stands_when_all_else_is_gone(running: Make) -> None:
    world = running()
    world.end_gang(0, exit_code=0)
    world.settle()
    world.objects.clear()
    world.pods.clear()
    world.run["spec"]["steps"] = 1_000
    world.settle()
    assert world.condition("Succeeded")["status"] == "True"
    assert not world.objects


def test_finished_run_is_deleted_after_its_ttl(running: Make) -> None:
    world = running(ttlSecondsAfterFinished=60)
    world.end_gang(0, exit_code=0)
    world.settle()
    world.wait(59)
    assert world.step().requeue_after_seconds == 1
    assert not world.is_run_deleted
    world.wait(1)
    world.step()
    assert world.is_run_deleted


def test_deadline_fails_the_run_and_stops_the_trainer(running: Make) -> None:
    world = running(activeDeadlineSeconds=3600)
    world.report(0)
    assert world.step().requeue_after_seconds == 3600
    world.wait(3600)
    world.settle()
    assert world.condition("Failed")["reason"] == "DeadlineExceeded"
    assert not world.names(JOBS)
    assert world.names(STATEFUL_SETS), "until the trainer has written its checkpoint and is gone"
    world.bury_pods()
    world.settle()
    assert not world.names(STATEFUL_SETS) + world.names(DEPLOYMENTS) + world.names(ROLLOUT_POOLS)


def test_success_at_the_deadline_is_a_success(running: Make) -> None:
    world = running(activeDeadlineSeconds=3600)
    world.end_gang(0, exit_code=0)
    world.wait(7200)
    world.settle()
    assert world.run["status"]["phase"] == "Succeeded"


def test_job_that_somebody_deleted_is_started_again(running: Make) -> None:
    world = running()
    del world.objects[JOBS, "demo-trainer-0"]
    del world.pods["demo-trainer-0-0"]
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-1"]


def test_old_jobs_are_forgotten_but_the_last_two(running: Make) -> None:
    world = running(restart={"limit": 5, "backoffSeconds": 0})
    for attempt in range(4):
        world.run_gang(attempt)
        world.end_gang(attempt, exit_code=1)
        world.settle()
    assert world.names(JOBS) == ["demo-trainer-3", "demo-trainer-4"]
    assert world.run["status"]["restarts"] == 4


@pytest.mark.parametrize(
    ("restarts", "seconds"), [(0, 10), (1, 20), (3, 80), (6, 600), (1_000, 600)], ids=lambda number: str(number)
)
def test_backoff_doubles_up_to_ten_minutes(restarts: int, seconds: int) -> None:
    assert backoff_seconds(Restart(), restarts) == seconds


def test_no_backoff_where_none_is_wanted() -> None:
    assert backoff_seconds(Restart(backoff_seconds=0), 3) == 0
