"""Engines that span pods and found nodes for half of them: two halves do not wait for each other's nodes for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_operator.plan.engine_room import note_engine_let_go
from sweyard_operator.resources import STATEFUL_SETS
from sweyard_operator.testing.patches import json_patch
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]
DEADLINE_SECONDS = 300
LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS = 1_350, 450
ENGINES: dict[str, Any] = {"replicas": 3, "tensorParallel": 2, "podsPerEngine": 2, "scaling": {"minReplicas": 1}}


@pytest.fixture
def three_engines(running: Make) -> RunWorld:
    """A run at work that asks for three engines of two pods each, and has their StatefulSet so large."""
    world = running(
        inference=ENGINES,
        trainer={"device": "auto"},
        restart={"backoffSeconds": 0},
        placementDeadlineSeconds=DEADLINE_SECONDS,
    )
    world.report(attempt=0, phase="rl", step=1, engines=3)
    world.settle()
    world.serve()
    return world


def strand(world: RunWorld, *ordinals: int) -> None:
    """No node for these pods; the other ones of their engines are not ready then."""
    for ordinal in ordinals:
        half = world.pods[f"demo-engine-{ordinal ^ 1}"]["status"]
        half["conditions"] = [one for one in half["conditions"] if one["type"] != "Ready"]
        world.strand_pod(f"demo-engine-{ordinal}")
    world.settle()


def scale_down(world: RunWorld) -> None:
    """The StatefulSet's controller deletes the pods that are too many."""
    for name in [*world.pods]:
        component, _, ordinal = name.rpartition("-")
        if component == "demo-engine" and int(ordinal) >= pods(world):
            del world.pods[name]


def pods(world: RunWorld) -> int:
    return int(world.objects[STATEFUL_SETS, "demo-engine"]["spec"]["replicas"])


@pytest.mark.parametrize(
    ("without_node", "pods_left"),
    [
        pytest.param([3, 4], 4, id="two halves: the last engine goes, and its node makes the other whole"),
        pytest.param([1, 5], 4, id="one half is of the engine that the run needs"),
        pytest.param([3, 4, 5], 4, id="the last engine goes that holds nothing, to leave no place before the half"),
        pytest.param([5], 4, id="one half: the node that it holds may make another run's engine whole"),
        pytest.param([4, 5], 6, id="an engine that holds nothing waits on"),
        pytest.param([3], 6, id="one that serves does not go for a half"),
        pytest.param([], 6, id="all have their nodes"),
    ],
)
def test_what_halves_of_engines_hold_is_let_go(
    three_engines: RunWorld, without_node: list[int], pods_left: int
) -> None:
    strand(three_engines, *without_node)
    three_engines.wait(DEADLINE_SECONDS - 1)
    three_engines.settle()
    assert pods(three_engines) == 6
    three_engines.wait(1)
    three_engines.settle()
    assert pods(three_engines) == pods_left
    assert three_engines.run["status"]["phase"] == "Running"


def test_a_half_that_stays_has_the_whole_deadline_for_what_was_let_go_for_it(three_engines: RunWorld) -> None:
    strand(three_engines, 3, 4)
    three_engines.wait(DEADLINE_SECONDS)
    three_engines.settle()
    scale_down(three_engines)
    three_engines.wait(DEADLINE_SECONDS - 1)
    three_engines.settle()
    assert pods(three_engines) == 4
    three_engines.wait(1)
    three_engines.settle()
    assert pods(three_engines) == 2
    scale_down(three_engines)
    strand(three_engines, 1)
    three_engines.wait(DEADLINE_SECONDS)
    three_engines.settle()
    assert pods(three_engines) == 2, "never fewer than the fewest"


def test_an_engine_that_went_for_want_of_room_is_tried_again_after_a_pause(three_engines: RunWorld) -> None:
    strand(three_engines, 3, 4)
    three_engines.wait(DEADLINE_SECONDS)
    three_engines.settle()
    scale_down(three_engines)
    three_engines.start_pod("demo-engine-3", "engine")
    three_engines.wait(SHORTEST_PAUSE_SECONDS - 1)
    three_engines.settle()
    assert pods(three_engines) == 4
    three_engines.wait(LONGEST_PAUSE_SECONDS)
    three_engines.settle()
    assert pods(three_engines) == 6


def test_halves_are_no_engine_that_an_attempt_could_begin_with(three_engines: RunWorld) -> None:
    """As many pods as the fewest engines have got nodes, and yet no engine."""
    strand(three_engines, 1, 2, 4, 5)
    three_engines.end_gang(0, exit_code=1)
    three_engines.settle()
    three_engines.wait(DEADLINE_SECONDS)
    three_engines.settle()
    three_engines.bury_pods()
    three_engines.settle()
    assert three_engines.condition("Unplaced")["reason"] == "PlacementDeadline"
    assert three_engines.names(STATEFUL_SETS) == []


@pytest.mark.parametrize("annotations", [{}, {"annotations": {"example.com/own": "kept"}}])
def test_the_note_leaves_other_annotations_as_they_are(
    three_engines: RunWorld, annotations: dict[str, dict[str, str]]
) -> None:
    engines: dict[str, Any] = {"metadata": {"name": "demo-engine", **annotations}}
    json_patch(engines, note_engine_let_go(engines, three_engines.now))
    noted = engines["metadata"]["annotations"]
    assert noted.pop("sweyard.dev/engine-let-go-at").endswith("Z")
    assert noted == annotations.get("annotations", {})
