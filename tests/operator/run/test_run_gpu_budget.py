"""GPU hours: counted while pods hold GPUs, told when they run low, and the end of the run when they are spent."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_operator.observe.pod_state import count_gpus, read_pod
from sweyard_operator.plan.gpu_budget import count_usage, seconds_left, spent_hours
from sweyard_operator.resources import JOBS
from sweyard_operator.slim import slim
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

START = datetime(2030, 1, 1, tzinfo=UTC)
GPUS = {"limits": {"nvidia.com/gpu": "2"}}


@pytest.fixture
def world(running: Make) -> RunWorld:
    """Two GPUs in the trainer, two in the engine, and a budget of eight GPU hours."""
    world = running(trainer={"resources": GPUS}, inference={"resources": GPUS}, maxGPUHours=8)
    world.report(0)
    return world


def pass_time(world: RunWorld, minutes: int) -> None:
    """With a pass every ten minutes, as if the operator were away in between, and one at the end."""
    for stretch in [10] * (minutes // 10) + [minutes % 10]:
        world.wait(60 * stretch)
        world.settle()


def test_gpus_are_counted_once_a_minute_while_they_are_held(world: RunWorld) -> None:
    usage = world.run["status"]["usage"]
    assert (usage["gpuHours"], usage["gpus"]) == (0, 4)
    world.wait(59)
    world.settle()
    assert world.run["status"]["usage"] == usage
    pass_time(world, 60)
    assert world.run["status"]["usage"]["gpuHours"] == pytest.approx(4 * (3_600 + 59) / 3_600, abs=0.01)


def test_the_last_tenth_is_told_before_the_stop(world: RunWorld) -> None:
    assert world.condition("GPUBudgetLow")["status"] == "False"
    pass_time(world, 109)
    condition = world.condition("GPUBudgetLow")
    assert (condition["status"], condition["reason"]) == ("True", "GPUBudgetLow")
    assert condition["message"].startswith("7.3 of maxGPUHours (8) are spent, the rest lasts 11 minutes at 4 GPUs; ")
    assert world.run["status"]["phase"] == "Running"


def test_a_spent_budget_ends_the_run_and_lets_the_trainer_save(world: RunWorld) -> None:
    assert world.step().requeue_after_seconds == 2 * 3_600
    pass_time(world, 119)
    assert world.names(JOBS) == ["demo-trainer-0"]
    world.wait(60)
    world.settle()
    assert world.condition("Failed")["reason"] == "GPUBudgetSpent"
    assert "maxGPUHours (8) are spent" in world.condition("Failed")["message"]
    assert not world.names(JOBS)
    assert world.pods["demo-trainer-0-0"]["metadata"]["deletionTimestamp"], "with the time of a checkpoint"


def test_a_budget_that_is_raised_in_time_lets_the_run_go_on(world: RunWorld) -> None:
    pass_time(world, 119)
    world.run["spec"]["maxGPUHours"] = 100
    pass_time(world, 60)
    assert world.run["status"]["phase"] == "Running"
    assert world.condition("GPUBudgetLow")["status"] == "False"


def test_a_suspended_run_spends_nothing(world: RunWorld) -> None:
    pass_time(world, 30)
    world.suspend(True)
    world.settle()
    world.bury_pods()
    world.settle()
    pass_time(world, 600)
    usage = world.run["status"]["usage"]
    assert (usage["gpuHours"], usage["gpus"]) == (pytest.approx(2, abs=1e-4), 0)
    assert world.run["status"]["phase"] == "Suspended"


def test_a_run_without_gpus_counts_none(running: Make) -> None:
    world = running(maxGPUHours=1)
    pass_time(world, 3)
    assert "usage" not in world.run["status"]
    assert world.condition("GPUBudgetLow")["status"] == "False"


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({"cpu": "4", "memory": "1Gi"}, 0),
        ({"nvidia.com/gpu": "8"}, 8),
        ({"amd.com/gpu": 2, "rdma/hca": "1"}, 2),
        ({"nvidia.com/mig-1g.10gb": "3"}, 3),
    ],
)
def test_gpus_are_seen_in_what_the_caches_keep_of_a_pod(limits: dict[str, object], gpus: int) -> None:
    container = {"name": "trainer", "image": "x", "resources": {"limits": limits}}
    assert count_gpus(container) == gpus
    metadata = {"name": "p", "uid": "u", "creationTimestamp": "2030-01-01T00:00:00Z"}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "a", "containers": [container]}}
    assert read_pod(slim(pod)).gpus == gpus


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 16)), max_size=30))
def test_however_often_it_looks_it_counts_the_same(stretches: list[tuple[int, int]]) -> None:
    status: dict[str, object] = {}
    now, exact, held = START, 0.0, 0
    for seconds, gpus in stretches:
        now += timedelta(seconds=seconds)
        exact += held * seconds / 3_600
        held = gpus
        container = {"name": "t", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
        metadata = {"name": "p", "uid": "u", "creationTimestamp": "2030-01-01T00:00:00Z"}
        pod = read_pod({"metadata": metadata, "spec": {"nodeName": "a", "containers": [container]}})
        usage = count_usage(status, [pod], now)
        if usage is not None:
            status["usage"] = usage.model_dump(mode="json", by_alias=True)
            assert spent_hours(usage, now) == pytest.approx(exact, abs=1e-6 * (1 + len(stretches)))
            left = seconds_left(usage, 1e6, now)
            assert (left is None) == (usage.gpus == 0)
