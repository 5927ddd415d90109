"""Pods on nodes that no longer report: given up after a deadline, so that nothing waits for them for ever."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from sweyard_operator.conditions import rfc3339
from sweyard_operator.plan.lost_pods import OVERDUE
from sweyard_operator.resources import JOBS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

PAIR = {"device": "cpu", "dtype": "float32", "replicas": 2}


def strand(world: RunWorld, pod: str) -> None:
    """A pod's node goes silent; the node controller asks in vain for the pod's end, due in 300 s."""
    world.pods[pod]["spec"] = {"nodeName": "node-b"}
    world.pods[pod]["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    world.pods[pod]["metadata"]["deletionTimestamp"] = rfc3339(world.now + timedelta(seconds=300))
    world.lost_nodes.add("node-b")


@pytest.fixture
def stranded(running: Make) -> RunWorld:
    """Rank 1 was on the lost node, and the Job has failed for it."""
    world = running(restart={"backoffSeconds": 0}, trainer=PAIR)
    world.end_gang(0, exit_code=1)
    strand(world, "demo-trainer-0-1")
    return world


def test_the_next_attempt_starts_without_the_lost_rank_once_its_time_is_over(stranded: RunWorld) -> None:
    stranded.wait(300 + OVERDUE.total_seconds() - 1)
    stranded.settle()
    assert stranded.names(JOBS) == ["demo-trainer-0"]
    assert "demo-trainer-0-1" in stranded.condition("TrainerReady")["message"]
    stranded.wait(1)
    plan = stranded.step()
    assert [(deletion.name, deletion.grace_period_seconds) for deletion in plan.delete] == [("demo-trainer-0-1", 0)]
    assert [event.message for event in plan.events if event.reason == "NodeLost"] == [
        "pod demo-trainer-0-1 is deleted by force: node node-b does not report that it ended"
    ]
    stranded.settle()
    assert stranded.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]


def test_a_lost_node_spends_no_restart_though_the_other_ranks_failed_first(stranded: RunWorld) -> None:
    stranded.wait(300 + OVERDUE.total_seconds())
    stranded.settle()
    failure = stranded.run["status"]["lastFailure"]
    assert (failure["reason"], failure["message"]) == ("Disrupted", "pod demo-trainer-0-1: node node-b is lost")
    assert (stranded.run["status"]["attempts"], stranded.run["status"]["restarts"]) == (2, 0)


def test_a_slow_end_on_a_living_node_is_waited_for(stranded: RunWorld) -> None:
    stranded.lost_nodes.clear()
    stranded.wait(3_600)
    stranded.settle()
    assert stranded.names(JOBS) == ["demo-trainer-0"]
    assert "demo-trainer-0-1" in stranded.pods


def test_a_pod_that_nobody_deleted_is_left_alone(running: Make) -> None:
    world = running()
    world.pods["demo-trainer-0-0"]["spec"] = {"nodeName": "node-b"}
    world.lost_nodes.add("node-b")
    world.wait(3_600)
    world.settle()
    assert "demo-trainer-0-0" in world.pods


@pytest.mark.parametrize("ending", ["suspended", "over"])
def test_a_lost_engine_holds_up_no_end(running: Make, ending: str) -> None:
    world = running()
    strand(world, "demo-engine-0")
    lost = world.pods["demo-engine-0"]
    if ending == "suspended":
        world.suspend(True)
    else:
        world.end_gang(0, exit_code=0)
    world.settle()
    world.bury_pods()
    world.pods["demo-engine-0"] = lost
    world.settle()
    world.wait(300 + OVERDUE.total_seconds())
    world.settle()
    assert "demo-engine-0" not in world.pods
    assert world.run["status"]["phase"] == ("Suspended" if ending == "suspended" else "Succeeded")
