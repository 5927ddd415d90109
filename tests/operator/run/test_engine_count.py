"""How many engines a run with inference.scaling has: what its trainer asks for, within the bounds."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.resources import STATEFUL_SETS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]
SCALING: dict[str, Any] = {"replicas": 4, "scaling": {"minReplicas": 2}}


def replicas(world: RunWorld) -> int:
    return int(world.objects[STATEFUL_SETS, "demo-engine"]["spec"]["replicas"])


@pytest.mark.parametrize(
    ("inference", "asked", "given"),
    [
        pytest.param({"replicas": 3}, 1, 3, id="without scaling always all"),
        pytest.param(SCALING, None, 2, id="the fewest before anything is asked"),
        pytest.param(SCALING, 3, 3, id="as many as are asked for"),
        pytest.param(SCALING, 1, 2, id="never fewer than the fewest"),
        pytest.param(SCALING, 99, 4, id="never more than the most"),
    ],
)
def test_engines_follow_the_trainer_within_the_bounds(
    running: Make, inference: dict[str, Any], asked: int | None, given: int
) -> None:
    world = running(inference=inference)
    world.report(attempt=0, phase="rl", step=1, **({} if asked is None else {"engines": asked}))
    world.settle()
    assert replicas(world) == given


def test_a_new_attempt_begins_with_the_engines_that_there_are(running: Make) -> None:
    world = running(inference=SCALING, restart={"backoffSeconds": 0})
    world.report(attempt=0, phase="rl", step=1, engines=3)
    world.settle()
    world.end_gang(0, exit_code=1)
    world.settle()
    world.run_gang(1)
    world.settle()
    assert replicas(world) == 3
    world.report(attempt=1, phase="rl", step=1, engines=2)
    world.settle()
    assert replicas(world) == 2


def test_the_fewest_engines_are_enough_to_serve(running: Make) -> None:
    message = "2 to 4 engines, as the attempts under way need, and the gateway serve"
    assert running(inference=SCALING).condition("InferenceReady")["message"] == message
