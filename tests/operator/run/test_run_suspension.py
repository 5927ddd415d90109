"""Suspend, resume, suspend, resume: truth at every stage, a new attempt each time, no restart spent."""

from collections.abc import Callable

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


def let_suspend(world: RunWorld) -> None:
    world.suspend(True)
    world.settle()
    world.bury_pods()
    world.settle()


def test_trainer_writes_its_checkpoint_before_anything_else_goes(running: Make) -> None:
    world = running()
    world.suspend(True)
    world.settle()
    assert not world.names(JOBS)
    assert world.names(STATEFUL_SETS) == ["demo-engine"]
    assert world.run["status"]["phase"] == "Suspending"
    assert (world.condition("Suspended")["status"], world.condition("Suspended")["reason"]) == ("False", "Suspending")
    world.bury_pods()
    world.settle()
    assert not world.names(STATEFUL_SETS) + world.names(DEPLOYMENTS) + world.names(ROLLOUT_POOLS)
    assert world.names(CONFIG_MAPS) == ["demo-config"]
    assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["demo"]
    assert world.run["status"]["phase"] == "Suspended"
    assert world.condition("Suspended")["status"] == "True"
    assert world.condition("Progressing")["status"] == "False"


def test_resumed_run_is_a_new_attempt_and_no_restart(running: Make) -> None:
    world = running()
    for attempt in (1, 2):
        let_suspend(world)
        world.suspend(False)
        world.settle()
        assert world.condition("Suspended")["status"] == "False"
        assert world.run["status"]["phase"] == "Sandboxes"
        world.serve()
        world.settle()
        world.run_gang(attempt)
        world.settle()
        assert world.names(JOBS) == [f"demo-trainer-{attempt}"]
        assert world.run["status"]["phase"] == "Running"
    assert (world.run["status"]["attempts"], world.run["status"]["restarts"]) == (3, 0)


def test_job_is_not_deleted_before_its_counts_are_written(running: Make) -> None:
    world = running()
    world.run["status"]["attempts"] = 0
    world.suspend(True)
    assert not world.step().delete
    assert world.run["status"]["attempts"] == 1
    assert [deletion.name for deletion in world.step().delete] == ["demo-trainer-0"]


def test_run_applied_suspended_makes_nothing(make_world: Make) -> None:
    world = make_world(suspend=True)
    world.settle()
    assert not world.objects
    assert world.run["status"]["phase"] == "Suspended"
    assert "startTime" not in world.run["status"]
    world.suspend(False)
    world.settle()
    world.serve()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_failure_before_a_suspension_still_counts(running: Make) -> None:
    world = running(restart={"limit": 3, "backoffSeconds": 600})
    world.end_gang(0, exit_code=1)
    let_suspend(world)
    assert world.names(JOBS) == ["demo-trainer-0"]
    world.suspend(False)
    world.wait(600)
    world.settle()
    world.serve()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]
    assert world.run["status"]["restarts"] == 1


def test_run_that_succeeds_while_it_is_suspended_has_succeeded(running: Make) -> None:
    world = running()
    world.end_gang(0, exit_code=0)
    world.suspend(True)
    world.settle()
    assert world.run["status"]["phase"] == "Succeeded"
    assert world.condition("Suspended")["status"] == "False"


def test_suspension_stops_the_deadline(running: Make) -> None:
    world = running(activeDeadlineSeconds=100)
    world.wait(50)
    let_suspend(world)
    world.wait(1_000)
    world.settle()
    assert world.run["status"]["phase"] == "Suspended"
    world.suspend(False)
    world.settle()
    world.wait(99)
    world.settle()
    assert world.condition("Failed")["status"] == "False"
    world.wait(1)
    world.settle()
    assert world.condition("Failed")["reason"] == "DeadlineExceeded"


def test_suspending_waits_no_longer_when_the_wish_is_taken_back(running: Make) -> None:
    world = running()
    world.suspend(True)
    world.settle()
    world.suspend(False)
    world.settle()
    assert not world.names(JOBS)
    assert world.condition("TrainerReady")["reason"] == "Terminating"
    world.bury_pods()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-1"]
