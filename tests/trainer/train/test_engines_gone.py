"""What the main loop does when engines come and go."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sweyard_trainer.engine.engine import EngineError
from sweyard_trainer.errors import EnginesGoneError, StoppedError
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.train import TrainingLoop


async def test_no_engine_for_too_long_ends_the_life_in_mid_step_and_the_next_one_goes_on(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)

    run = life.worker.run

    async def lose_all_in_step_three(plan: AttemptPlan) -> Any:
        if plan.attempt_id.startswith("3/") and plan.attempt_id.endswith("/2"):
            if not life.run.weight_sync.gone.done():
                life.run.weight_sync.gone.set_result(EnginesGoneError("no engine has served for 1800 s"))
            await asyncio.Event().wait()  # there is nobody to answer
        return await run(plan)

    life.worker.run = lose_all_in_step_three
    with pytest.raises(EnginesGoneError, match="no engine has served"):
        await TrainingLoop(life.run).run()
    assert world.events.count("train") == 2
    summary = await TrainingLoop(make_life(world).run).run()
    assert summary["steps"] == 6


async def test_when_engines_change_workers_are_told_again_with_the_version_that_serves(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    told: list[int] = []
    use_weights = life.worker.use_weights

    async def record(version: int, num_engines: int | None) -> None:
        told.append(version)
        await use_weights(version, num_engines)

    run = life.worker.run

    async def changing(plan: AttemptPlan) -> Any:
        if plan.attempt_id.startswith("2/") and plan.attempt_id.endswith("/0"):
            await life.run.weight_sync.on_change()
        return await run(plan)

    life.worker.use_weights, life.worker.run = record, changing
    await TrainingLoop(life.run).run()
    assert told == [0, 1, 2, 2, 2, 3, 4, 5, 6, 7]


async def test_a_gateway_that_is_away_when_weights_are_new_is_waited_for(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    use_weights, refusals = life.worker.use_weights, iter([EngineError("gateway http://gateway:8001 is away")])

    async def refuse_once(version: int, num_engines: int | None) -> None:
        if version == 2 and (refusal := next(refusals, None)) is not None:
            raise refusal
        await use_weights(version, num_engines)

    life.worker.use_weights = refuse_once
    summary = await TrainingLoop(life.run).run()
    assert (summary["steps"], world.events.count("train")) == (6, 6)
    assert next(refusals, None) is None


async def test_who_is_told_to_end_while_the_gateway_is_away_saves_the_step_and_waits_no_longer(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    loop, use_weights = TrainingLoop(life.run), life.worker.use_weights

    async def be_away(version: int, num_engines: int | None) -> None:
        if version < 2:
            return await use_weights(version, num_engines)
        loop.stop()
        raise EngineError("gateway http://gateway:8001 is away")

    life.worker.use_weights = be_away
    async with asyncio.timeout(60):
        with pytest.raises(StoppedError, match="stopped after step 1"):
            await loop.run()
    summary = await TrainingLoop(make_life(world).run).run()
    assert (summary["steps"], world.events.count("train")) == (6, 6)
