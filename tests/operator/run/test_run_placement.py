"""All or nothing: a run whose pods cannot all be placed holds nothing, and tries again."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_operator.conditions import rfc3339
from sweyard_operator.plan.pause import pause_seconds
from sweyard_operator.plan.plan import Refusal, RefusalReason
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

DEADLINE_SECONDS = 300
PAIR = {"device": "cpu", "dtype": "float32", "replicas": 2}


@pytest.fixture
def halved(make_world: Make) -> RunWorld:
    """Rank 0 runs and waits for rank 1, which no node can take."""
    world = make_world(trainer=PAIR, placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.serve()
    world.settle()
    world.run_gang(0)
    world.strand_pod("demo-trainer-0-1")
    world.settle()
    return world


def held(world: RunWorld) -> list[str]:
    """What costs something."""
    kinds = (JOBS, STATEFUL_SETS, DEPLOYMENTS, ROLLOUT_POOLS)
    return [name for kind in kinds for name in world.names(kind)] + list(world.pods)


def let_go(world: RunWorld) -> None:
    """From the deadline to the moment when nothing is left."""
    world.wait(DEADLINE_SECONDS)
    world.settle()
    world.bury_pods()
    world.settle()


def test_a_gang_that_is_not_placed_in_time_lets_everything_go(halved: RunWorld) -> None:
    halved.wait(DEADLINE_SECONDS - 1)
    halved.settle()
    assert halved.names(JOBS) == ["demo-trainer-0"]
    halved.wait(1)
    plan = halved.step()
    assert not plan.delete, "first it is written that the run waits"
    assert plan.requeue_after_seconds == 0
    halved.settle()
    halved.bury_pods()
    halved.settle()
    assert held(halved) == []
    assert halved.names(CONFIG_MAPS) == ["demo-config"]
    assert halved.names(PERSISTENT_VOLUME_CLAIMS) == ["demo"]


def test_the_sentence_names_pods_cause_remedy_and_the_next_try(halved: RunWorld) -> None:
    let_go(halved)
    condition = halved.condition("Unplaced")
    assert (condition["status"], condition["reason"]) == ("True", "PlacementDeadline")
    assert halved.condition("Progressing")["message"] == condition["message"]
    assert condition["message"].startswith(
        f"not all pods were placed within placementDeadlineSeconds ({DEADLINE_SECONDS}), so nothing is held until 00:0"
    )
    assert condition["message"].endswith(
        "1 of 2 trainer pods Unschedulable: demo-trainer-0-1: 0/5 nodes are available: 5 Insufficient nvidia.com/gpu; "
        "lower trainer.resources, loosen trainer.nodeSelector, or add nodes"
    )
    assert halved.run["status"]["phase"] == "Pending"


def test_ranks_that_wait_for_each_other_are_not_given_the_time_of_a_checkpoint(halved: RunWorld) -> None:
    halved.wait(DEADLINE_SECONDS)
    halved.step()
    deletions = [(deletion.name, deletion.grace_period_seconds) for deletion in halved.step().delete]
    # Before their Job, whose deletion would give them more: a kubelet keeps to what it was told first.
    assert sorted(deletions[:2]) == [("demo-trainer-0-0", 10), ("demo-trainer-0-1", 10)]
    assert [name for name, _ in deletions[2:]] == ["demo-trainer-0"]
    assert not halved.step().delete


def test_the_next_try_is_a_new_attempt_and_no_restart(halved: RunWorld) -> None:
    let_go(halved)
    plan = halved.step()
    assert plan.requeue_after_seconds == pytest.approx(pause_seconds("run-uid", 1), abs=1)
    halved.wait(pause_seconds("run-uid", 1) + 1)
    plan = halved.step()
    assert not plan.create, "an operator that dies here tries again, and does not let go of a try under way"
    assert not halved.condition("Unplaced")
    halved.settle()
    halved.serve()
    halved.settle()
    assert halved.names(JOBS) == ["demo-trainer-1"]
    assert (halved.run["status"]["restarts"], halved.run["status"]["placementFailures"]) == (0, 1)
    halved.run_gang(1)
    halved.settle()
    assert halved.run["status"]["phase"] == "Running"
    assert "placementFailures" not in halved.run["status"]


def test_tries_in_vain_are_counted_though_the_operator_dies_after_every_write(halved: RunWorld) -> None:
    for failures in (1, 2, 3):
        let_go(halved)
        assert halved.run["status"]["placementFailures"] == failures
        assert held(halved) == []
        halved.wait(pause_seconds("run-uid", failures) + 1)
        halved.settle()
        halved.serve()
        halved.settle()
        halved.run_gang(failures)
        halved.strand_pod(f"demo-trainer-{failures}-0")
        halved.step(writes_status=False)


@pytest.mark.parametrize("stranded", ["demo-engine-1", "demo-gateway-0"])
def test_engines_and_gateway_without_a_place_are_let_go_before_there_is_a_trainer(
    make_world: Make, stranded: str
) -> None:
    world = make_world(inference={"replicas": 2}, placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.serve()
    world.strand_pod(stranded)
    world.settle()
    let_go(world)
    assert held(world) == []
    assert stranded in world.condition("Unplaced")["message"]


def test_engines_do_not_idle_for_a_pool_without_nodes(make_world: Make) -> None:
    world = make_world(placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.serve()
    full = {"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "0 of 8 wanted sandboxes"}
    world.objects[ROLLOUT_POOLS, "demo"]["status"] = in_trouble(full, since="2030-01-01T00:00:00Z")
    world.settle()
    let_go(world)
    assert held(world) == []
    assert "RolloutPool demo: 0 of 8 wanted sandboxes" in world.condition("Unplaced")["message"]


def refuse_child(world: RunWorld) -> None:
    words = "exceeded quota: small, requested: requests.storage=2Gi"
    world.refusals = (Refusal("PersistentVolumeClaim", "demo", RefusalReason.QUOTA_EXCEEDED, words),)


def refuse_engine_pods(world: RunWorld) -> None:
    owner = world.objects[STATEFUL_SETS, "demo-engine"]
    world.warnings[owner["metadata"]["uid"]] = "FailedCreate: exceeded quota: small"


def refuse_sandboxes(world: RunWorld) -> None:
    words = "3 of 8 wanted sandboxes are ready: exceeded quota: small"
    ready = {"type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": words}
    world.objects[ROLLOUT_POOLS, "demo"]["status"] = in_trouble(ready, since=rfc3339(world.now))


def in_trouble(ready: dict[str, str], since: str) -> dict[str, Any]:
    """Status of a pool that has not been ready since the run began, and in trouble since then."""
    degraded = {**ready, "type": "Degraded", "status": "True", "lastTransitionTime": since}
    return {"conditions": [{**ready, "lastTransitionTime": "2030-01-01T00:00:00Z"}, degraded]}


@pytest.mark.parametrize("refuse", [refuse_child, refuse_engine_pods, refuse_sandboxes])
def test_what_quota_refuses_a_part_of_does_not_stand_and_wait(
    make_world: Make, refuse: Callable[[RunWorld], None]
) -> None:
    world = make_world(placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    refuse(world)
    world.settle()
    assert world.names(ROLLOUT_POOLS) == ["demo"]
    let_go(world)
    assert held(world) == []
    assert "exceeded quota: small" in world.condition("Unplaced")["message"]

    world.refusals, world.warnings = (), {}
    world.wait(pause_seconds("run-uid", 1) + 1)
    world.settle()
    world.serve()
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]


def test_a_gang_that_quota_refuses_a_rank_lets_everything_go(running: Make) -> None:
    world = running(trainer=PAIR, placementDeadlineSeconds=DEADLINE_SECONDS)
    del world.pods["demo-trainer-0-1"]
    world.warnings[world.objects[JOBS, "demo-trainer-0"]["metadata"]["uid"]] = "FailedCreate: exceeded quota: small"
    world.settle()
    let_go(world)
    assert held(world) == []
    assert "exceeded quota: small" in world.condition("Unplaced")["message"]


@pytest.mark.parametrize("refuse", [refuse_child, refuse_engine_pods, refuse_sandboxes])
def test_the_time_in_which_nothing_was_refused_does_not_count(
    make_world: Make, refuse: Callable[[RunWorld], None]
) -> None:
    world = make_world(placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.wait(10 * DEADLINE_SECONDS)
    world.settle()
    refuse(world)
    world.settle()
    world.wait(DEADLINE_SECONDS - 1)
    world.settle()
    assert world.names(ROLLOUT_POOLS) == ["demo"]
    let_go(world)
    assert held(world) == []


def test_a_gang_that_is_refused_a_rank_after_hours_of_pulling_has_the_whole_deadline(make_world: Make) -> None:
    world = make_world(trainer=PAIR, placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.wait(7_200)
    world.serve()
    world.settle()
    del world.pods["demo-trainer-0-1"]
    job = world.objects[JOBS, "demo-trainer-0"]["metadata"]["uid"]
    world.warnings[job] = "FailedCreate: exceeded quota: small"
    world.settle()
    assert world.condition("Unplaced")["status"] == "False"
    world.wait(DEADLINE_SECONDS - 1)
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0"]
    world.warnings = {}
    world.start_pod("demo-trainer-0-1", "trainer")
    world.run_gang(0)
    world.settle()
    assert not world.condition("Unplaced")


def test_an_end_while_the_run_waits_is_an_end(halved: RunWorld) -> None:
    let_go(halved)
    halved.run["spec"]["activeDeadlineSeconds"] = 1
    halved.settle()
    assert halved.run["status"]["phase"] == "Failed"
    assert not halved.condition("Unplaced")


def test_a_job_that_somebody_suspended_is_told_and_nothing_stands_and_waits_for_it(make_world: Make) -> None:
    world = make_world(placementDeadlineSeconds=DEADLINE_SECONDS)
    world.settle()
    world.serve()
    world.settle()
    world.objects[JOBS, "demo-trainer-0"]["spec"]["suspend"] = True
    del world.pods["demo-trainer-0-0"]
    world.settle()
    told = world.condition("TrainerReady")
    assert (told["reason"], told["message"]) == (
        "JobSuspended",
        "Job demo-trainer-0 was suspended, not by this operator; where Kueue manages Jobs without a queue name, give "
        "the run a queueName",
    )
    let_go(world)
    assert held(world) == []


def test_an_engine_beyond_the_fewest_that_has_no_place_holds_up_no_attempt(running: Make) -> None:
    scaling = {"replicas": 2, "scaling": {"minReplicas": 1}}
    world = running(inference=scaling, restart={"backoffSeconds": 0}, placementDeadlineSeconds=DEADLINE_SECONDS)
    world.report(attempt=0, phase="rl", step=1, engines=2)
    world.settle()
    world.start_pod("demo-engine-1", "engine")
    world.strand_pod("demo-engine-1")
    world.wait(2 * DEADLINE_SECONDS)
    world.settle()
    world.end_gang(0, exit_code=1)
    world.settle()
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]


def test_a_running_trainer_does_not_stop_for_an_engine_that_quota_refuses(running: Make) -> None:
    world = running(placementDeadlineSeconds=DEADLINE_SECONDS)
    world.report(attempt=0)
    del world.pods["demo-engine-0"]
    refuse_engine_pods(world)
    world.settle()
    assert world.condition("Progressing")["reason"] == "FailedCreate"
    world.wait(10 * DEADLINE_SECONDS)
    world.settle()
    assert world.run["status"]["phase"] == "Running"


def test_a_running_trainer_does_not_stop_for_an_engine_without_a_place(running: Make) -> None:
    world = running(inference={"replicas": 2}, placementDeadlineSeconds=DEADLINE_SECONDS)
    world.report(attempt=0)
    world.strand_pod("demo-engine-1")
    world.wait(10 * DEADLINE_SECONDS)
    world.settle()
    assert world.run["status"]["phase"] == "Running"
    assert world.condition("InferenceReady")["reason"] == "Unschedulable"


def test_suspending_and_resuming_begins_anew_at_once(halved: RunWorld) -> None:
    let_go(halved)
    halved.suspend(True)
    halved.settle()
    assert halved.run["status"]["phase"] == "Suspended"
    assert not halved.condition("Unplaced")
    halved.suspend(False)
    halved.settle()
    assert halved.names(STATEFUL_SETS) == ["demo-engine"]
    assert "placementFailures" not in halved.run["status"]


@given(failures=st.integers(1, 10_000), uid=st.uuids())
def test_pauses_are_bounded_and_never_vanish(failures: int, uid: object) -> None:
    assert 30 <= pause_seconds(str(uid), failures) <= 1_350


def test_two_runs_that_met_do_not_meet_again() -> None:
    assert pause_seconds("one", 1) != pause_seconds("other", 1)
