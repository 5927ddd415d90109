"""The loop with rollout.maxStaleness: rollouts of later steps go on while the trainer trains."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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

    async def train_for_a_while(groups: Any) -> Any:
        for _ in range(15):
            await asyncio.sleep(0)
        return await train_step(groups)

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

    async def train_until_one_ended(groups: Any) -> Any:
        training.set()
        await ended.wait()
        return await train_step(groups)

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
    world: Any, make_life: Callable[..., Any], crash_error: type[Exception], crash_at: int
) -> None:
    changes = {"rollout": rollout(2), "evaluation": {"everySteps": 0}, "warmup": {"steps": 0}}
    world.crash_at = crash_at
    with pytest.raises(crash_error):
        await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    summary = await TrainingLoop(uneven(make_life(world, **changes)).run).run()
    assert summary["steps"] == STEPS
    assert_each_drawn_task_was_trained_once(world.storage)
    assert max(figures(world.storage, "rollout/staleness_max")) <= 2


async def test_a_run_asked_to_stop_goes_on_with_what_was_under_way(world: Any, make_life: Callable[..., Any]) -> None:
    life = uneven(make_life(world, rollout=rollout(2)))
    loop = TrainingLoop(life.run)
    train_step = life.learner.train_step

    async def stop_while_training(groups: Any) -> Any:
        figures = await train_step(groups)
        if world.events.count("train") == 3:
            loop.stop()
        return figures

    life.learner.train_step = stop_while_training
    with pytest.raises(StoppedError, match="after step 3"):
        await loop.run()
    (checkpoint,) = [json.loads(path.read_text()) for path in (world.storage / "checkpoints").glob("step-3")]
    assert checkpoint["extra"]["backlog"]["groups"]
    await TrainingLoop(uneven(make_life(world, rollout=rollout(2))).run).run()
    assert_each_drawn_task_was_trained_once(world.storage)
