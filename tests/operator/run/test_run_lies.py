"""A trainer whose reports claim absurd things: all that a schema lets through, by its own token.

Beside it the same run in the same world, whose trainer tells the truth at the same moments.
"""

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.operator.run.test_run_invariants import ACTIONS, act, new_world, newest, verdict

from sweyard_api.training_run import TrainerStatus
from sweyard_operator.resources import JOBS, STATEFUL_SETS
from sweyard_operator.testing.run_world import RunWorld

MOST_ENGINES = 3
HUGE = 2**63 - 1

numbers = st.sampled_from([-HUGE, -1, 0, 1, 2, 7, 10**6, HUGE])
moments = st.sampled_from(
    ["", "yesterday", "0000-00-00T00:00:00Z", "9999-12-31T23:59:60Z", "1970-01-01T00:00:00Z", "\U0001f680"]
)
lies = st.fixed_dictionaries(
    {"reportEverySeconds": st.sampled_from([1, 30, HUGE])},
    optional={
        "attempt": numbers,
        "phase": st.sampled_from(["starting", "warmup", "rl", "sft", "evaluating", "finished"]),
        "step": numbers,
        "totalSteps": numbers,
        "weightVersion": numbers,
        "engines": st.sampled_from([1, 2, HUGE]),
        "progressPercentage": st.integers(0, 100),
        "estimatedRemainingSeconds": numbers,
        "metrics": st.dictionaries(
            st.text(max_size=256), st.floats(allow_nan=False, allow_infinity=False), max_size=64
        ),
        "lastCheckpoint": st.text(max_size=4_096),
        "lastCheckpointStep": numbers,
        "bestCheckpointStep": numbers,
        "updatedAt": moments,
    },
)


def twin() -> RunWorld:
    world = new_world()
    world.run["spec"]["inference"] = {"replicas": MOST_ENGINES, "scaling": {"minReplicas": 1}}
    return world


def tell_truth(world: RunWorld, number: int) -> None:
    attempt = newest(world)
    if attempt is not None:
        world.report(attempt, phase="rl", step=number, message=str(number), reportEverySeconds=30)


def tell_lie(world: RunWorld, number: int, lie: dict[str, Any]) -> None:
    if newest(world) is not None:
        world.report(**{"attempt": newest(world), "message": str(number), **lie})


def outcome(world: RunWorld) -> dict[str, Any]:
    """What a report must have no say in."""
    status = world.run["status"]
    return {
        "verdict": verdict(world),
        "attempts": status.get("attempts"),
        "restarts": status.get("restarts"),
        "jobs": {name: world.objects[JOBS, name]["spec"].get("activeDeadlineSeconds") for name in world.names(JOBS)},
        "gone": sorted(name for name, pod in world.pods.items() if "deletionTimestamp" in pod["metadata"]),
        "is held": bool(world.names(STATEFUL_SETS)),
    }


@settings(max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(ACTIONS | st.just("report"), lies), max_size=25))
@example([("start", {}), ("report", {"phase": "finished", "attempt": 1, "step": HUGE}), ("fail", {}), ("start", {})])
@example([("start", {}), ("report", {"phase": "finished", "progressPercentage": 100}), ("settle", {}), ("fail", {})])
@example([("start", {}), ("report", {"engines": HUGE}), ("settle", {})])
@example([("start", {}), ("report", {"attempt": 7}), ("wait long", {}), ("wait long", {}), ("settle", {})])
def test_what_it_claims_ends_nothing_starts_nothing_and_spends_nothing(story: list[tuple[str, dict[str, Any]]]) -> None:
    honest, lying = twin(), twin()
    for number, (action, lie) in enumerate(story):
        for world in (honest, lying):
            if action != "report":
                act(world, action)
            elif world is honest:
                tell_truth(world, number)
            else:
                tell_lie(world, number, {"reportEverySeconds": 30, **lie})
            world.settle()
        assert outcome(lying) == outcome(honest)
        assert lying.plan().requeue_after_seconds != 0, "it would be looked at again and again"
        engines = lying.objects.get((STATEFUL_SETS, "demo-engine"))
        assert engines is None or 1 <= engines["spec"]["replicas"] <= MOST_ENGINES


@given(lies)
def test_these_lies_are_such_as_the_api_takes(lie: dict[str, Any]) -> None:
    TrainerStatus.model_validate(lie)
