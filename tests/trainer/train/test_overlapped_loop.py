"""The loop with rollout.maxStaleness: rollouts of later steps go on while the trainer trains."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_trainer.engine.engine import EngineUnfitError
from sweyard_trainer.errors import StoppedError
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.train import TrainingLoop

TASKS = "abcdefg"
STEPS, GROUPS, GROUP_SIZE = 6, 2, 3


def rollout(max_staleness: int) -> dict[str, int]:
    return {
        "groupsPerStep": GROUPS,
        "groupSize": GROUP_SIZE,
        "maxConcurrent": 8,
        "maxStaleness": max_staleness,
    }


def uneven(life: Any) -> Any:
    """Attempts take turns of the event loop, some many: groups end in another order than they began."""
    run = life.worker.run

    async def run_for_a_while(plan: AttemptPlan) -> Any:
        for _ in range(plan.seed % 40):
            await asyncio.sleep(0)
        return await run(plan)

    life.worker.run = run_for_a_while
    train_step = life.learner.train_step

    async def train_for_a_while(groups: Any, version: int) -> Any:
        for _ in range(15):
            await asyncio.sleep(0)
        return await train_step(groups, version)

    life.learner.train_step = train_for_a_while
    return life


def assert_each_drawn_task_was_trained_once(storage: Path) -> None:
    attempts = [a for path in sorted((storage / "rollouts").glob("step-*.parquet")) for a in read_attempts(path)]
    assert max(Counter(attempt.attempt_id for attempt in attempts).values()) == 1
    sizes = Counter(attempt.group_id for attempt in attempts)
    assert set(sizes.values()) == {GROUP_SIZE}
    cursor = TaskCursor(tuple(TASKS), 0)
    drawn = Counter(str(cursor.draw()) for _ in range(STEPS * GROUPS))
    assert Counter(group.split("/")[1].split("~")[0] for group in sizes) == drawn


def figures(storage: Path, name: str) -> list[float]:
    rows = map(json.loads, (storage / "metrics" / "metrics.jsonl").read_text().splitlines())
    return [row[name] for row in rows if row["phase"] == "rl"]


async def test_attempts_end_while_the_trainer_trains(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world, rollout=rollout(1))
    run, train_step = life.worker.run, life.learner.train_step
    first = TaskCursor(tuple(TASKS), 0)._order()[:GROUPS]
    training, ended = asyncio.Event(), asyncio.Event()

    async def run_others_while_training(plan: AttemptPlan) -> Any:
        if not plan.group_id.startswith("eval") and plan.task.id not in first:
            await training.wait()
            ended.set()
        return await run(plan)

    async def train_until_one_ended(groups: Any, version: int) -> Any:
        training.set()
        await ended.wait()
        return await train_step(groups, version)

    life.worker.run, life.learner.train_step = run_others_while_training, train_until_one_ended
    summary = await asyncio.wait_for(TrainingLoop(life.run).run(), 60)
    assert summary["steps"] == STEPS


@pytest.mark.parametrize("max_staleness", [1, 2, 4])
async def test_every_task_is_trained_once_and_none_is_staler_than_allowed(
    world: Any, make_life: Callable[..., Any], max_staleness: int
) -> None:
    life = uneven(make_life(world, rollout=rollout(max_staleness)))
    summary = await TrainingLoop(life.run).run()
    assert (summary["steps"], summary["weight_version"]) == (STEPS, STEPS + 1)
    assert_each_drawn_task_was_trained_once(world.storage)
    assert 0 < max(figures(world.storage, "rollout/staleness_max")) <= max_staleness
    assert figures(world.storage, "rollout/groups_stale") == [0.0] * STEPS


@pytest.mark.parametrize("crash_at", [4, 11, 18, 25, 32, 39, 46, 53, 58])
async def test_a_run_killed_anywhere_loses_and_doubles_no_task(
    world: Any, make_life: Callable[..., Any], crash: Callable[..., Any], crash_at: int
) -> None:
    changes = {"rollout": rollout(2), "evaluation": {"everySteps": 0}, "warmup": {"steps": 0}}
    world.crash_at = crash_at
    async with crash():
        await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    summary = await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    assert summary["steps"] == STEPS
    assert_each_drawn_task_was_trained_once(world.storage)
    assert max(figures(world.storage, "rollout/staleness_max")) <= 2


async def test_a_run_asked_to_stop_goes_on_with_what_was_under_way(world: Any, make_life: Callable[..., Any]) -> None:
    life = uneven(make_life(world, rollout=rollout(2)))
    loop = TrainingLoop(life.run)
    train_step = life.learner.train_step

    async def stop_while_training(groups: Any, version: int) -> Any:
        figures = await train_step(groups, version)
        if world.events.count("train") == 3:
            loop.stop()
        return figures

    life.learner.train_step = stop_while_training
    with pytest.raises(StoppedError, match="after step 3"):
        await loop.run()
    (checkpoint,) = [json.loads(path.read_text()) for path in (world.storage / "checkpoints").glob("step-3")]
    kept = [set(group["ended"].values()) for group in checkpoint["extra"]["backlog"]["groups"]]
    held = read_attempts(world.storage / "checkpoints" / "held-step-3.parquet")
    assert set().union(*kept) == {attempt.attempt_id for attempt in held}
    assert any(kept)
    await TrainingLoop(uneven(make_life(world, rollout=rollout(2))).run).run()
    assert_each_drawn_task_was_trained_once(world.storage)


def evaluation_versions(events: list[str]) -> dict[str, set[str]]:
    """The weights that each evaluation's attempts were begun with."""
    versions: dict[str, set[str]] = {}
    for event in events:
        if event.startswith("attempt eval-"):
            attempt, version = event.removeprefix("attempt eval-").split(" by ")
            versions.setdefault(attempt.split("-held/")[0], set()).add(version)
    return versions


async def test_an_evaluation_goes_on_while_the_next_step_is_attempted_and_trained(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world, rollout=rollout(1))
    run, train_step = life.worker.run, life.learner.train_step
    trained = asyncio.Event()

    async def evaluate_once_the_next_step_is_trained(plan: AttemptPlan) -> Any:
        if plan.group_id.startswith("eval-step-3"):
            await trained.wait()
        return await run(plan)

    async def train(groups: Any, version: int) -> Any:
        figures = await train_step(groups, version)
        if world.events.count("train") == 4:
            trained.set()
        return figures

    life.worker.run, life.learner.train_step = evaluate_once_the_next_step_is_trained, train
    summary = await asyncio.wait_for(TrainingLoop(life.run).run(), 60)
    assert list(summary["evaluations"]) == ["untrained", "warmed-up", "step-3", "final"]
    assert evaluation_versions(world.events)["step-3"] == {"4"}
    evaluated_at = max(n for n, event in enumerate(world.events) if event.startswith("attempt eval-step-3"))
    assert evaluated_at < world.events.index("publish 5")
    assert len(figures(world.storage, "time/evaluation_wait_seconds")) == STEPS


async def test_its_row_of_metrics_is_of_the_step_that_it_evaluates(world: Any, make_life: Callable[..., Any]) -> None:
    await TrainingLoop(uneven(make_life(world, rollout=rollout(1), warmup=None)).run).run()
    rows = map(json.loads, (world.storage / "metrics" / "metrics.jsonl").read_text().splitlines())
    order = [(row["phase"], row["step"]) for row in rows]
    steps = [("rl", step) for step in range(1, STEPS + 1)]
    assert order == [("evaluation", 0), *steps[:3], ("evaluation", 3), *steps[3:], ("evaluation", STEPS)]


@pytest.mark.parametrize("crash_at", [42, 46, 50, 54, 58, 62])
async def test_a_run_killed_beside_an_evaluation_evaluates_the_same_weights_again(
    world: Any, make_life: Callable[..., Any], crash: Callable[..., Any], crash_at: int
) -> None:
    changes = {"rollout": rollout(2), "evaluation": {"everySteps": 2}, "checkpoint": {"everySteps": 5}}
    world.crash_at = crash_at
    async with crash():
        await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    summary = await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    assert list(summary["evaluations"]) == ["untrained", "warmed-up", "step-2", "step-4", "final"]
    versions = evaluation_versions(world.events)
    assert (versions["step-2"], versions["step-4"]) == ({"3"}, {"5"})


async def test_a_run_stopped_while_its_weights_wait_for_an_evaluation_does_that_step_again(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world, rollout=rollout(1))
    loop = TrainingLoop(life.run)
    run, train_step = life.worker.run, life.learner.train_step

    async def never_evaluate(plan: AttemptPlan) -> Any:
        if plan.group_id.startswith("eval-step-3"):
            await asyncio.Event().wait()
        return await run(plan)

    async def stop_once_trained(groups: Any, version: int) -> Any:
        figures = await train_step(groups, version)
        if world.events.count("train") == 4:
            loop.stop()
        return figures

    life.worker.run, life.learner.train_step = never_evaluate, stop_once_trained
    with pytest.raises(StoppedError, match="after step 3"):
        await asyncio.wait_for(loop.run(), 60)
    assert "publish 5" not in world.events
    assert not (world.storage / "checkpoints" / "step-4").exists()
    summary = await TrainingLoop(make_life(world, rollout=rollout(1)).run).run()
    assert summary["steps"] == STEPS
    assert evaluation_versions(world.events)["step-3"] == {"4"}
    assert_each_drawn_task_was_trained_once(world.storage)


async def test_the_best_of_the_weights_evaluated_beside_training_have_a_checkpoint(
    world: Any, make_life: Callable[..., Any]
) -> None:
    tasks = {"train": {"dataset": "train"}, "eval": [{"dataset": "held", "name": "held"}]}
    changes = {"evaluation": {"everySteps": 2}, "checkpoint": {"everySteps": 5, "bestBy": "held"}, "tasks": tasks}
    life = uneven(make_life(world, rollout=rollout(1), **changes))
    await TrainingLoop(life.run).run()
    saved = {path.name for path in (world.storage / "checkpoints").glob("step-*")}
    assert {"step-2", "step-4", "step-5", "step-6"} <= saved
    assert life.learner.best_first[0] in (0, 2, 4)


async def test_an_evaluation_that_fails_beside_training_ends_the_run(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world, rollout=rollout(1))
    run = life.worker.run

    async def fail(plan: AttemptPlan) -> Any:
        if plan.group_id.startswith("eval-step-3"):
            raise EngineUnfitError("no logprobs")
        return await run(plan)

    life.worker.run = fail
    with pytest.raises(EngineUnfitError):
        await asyncio.wait_for(TrainingLoop(life.run).run(), 60)
    assert "publish 5" not in world.events
