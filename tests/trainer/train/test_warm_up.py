"""A warm-up that is stopped or dies at any of its steps goes on there, and ends as if undisturbed."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sweyard_trainer.errors import StoppedError
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.train import TrainingLoop
from sweyard_trainer.trajectory import Segment

STEPS = 3
"""Of the warm-up."""


def rows(storage: Path) -> list[dict[str, Any]]:
    """metrics.jsonl, without what depends on the clock."""
    lines = (storage / "metrics" / "metrics.jsonl").read_text().splitlines()
    return [
        {name: row[name] for name in row if "time" not in name and "per_second" not in name}
        for row in map(json.loads, lines)
    ]


def work(events: Iterable[str]) -> list[str]:
    """What is done once in a run, however many lives it has."""
    return [event for event in events if event != "start" and not event.startswith("checkpoint warmup")]


def report(storage: Path) -> dict[str, Any]:
    progress: dict[str, Any] = json.loads((storage / "progress.json").read_text())
    return progress


@pytest.fixture
async def unbroken(tmp_path: Path, world: Any, make_life: Callable[..., Any]) -> tuple[Any, int]:
    """The same run undisturbed: its world and its last weights."""
    other = type(world)(tmp_path / "unbroken")
    other.storage.mkdir()
    life = make_life(other)
    await TrainingLoop(life.run).run()
    return other, life.learner.weights


def stop_in(life: Any, loop: TrainingLoop, step: int) -> None:
    """Ask `loop` to stop while it trains this step of its life."""
    train, done = life.learner.sft_step, []

    async def sft_step(sequences: Sequence[Segment]) -> Mapping[str, float]:
        done.append(sequences)
        if len(done) == step:
            loop.stop()
        figures: Mapping[str, float] = await train(sequences)
        return figures

    life.learner.sft_step = sft_step


@pytest.mark.parametrize("stopped", [(1,), (2,), (3,), (1, 2), (1, 2, 3)], ids=str)
async def test_a_warm_up_that_is_stopped_goes_on_at_the_next_step(
    world: Any, make_life: Callable[..., Any], unbroken: tuple[Any, int], stopped: tuple[int, ...]
) -> None:
    done = 0
    for step in stopped:
        life = make_life(world)
        loop = TrainingLoop(life.run)
        stop_in(life, loop, step - done)
        with pytest.raises(StoppedError, match=f"^stopped in the warm-up after step {step} of {STEPS}$"):
            await loop.run()
        assert report(world.storage)["lastCheckpoint"] == f"checkpoints/warmup-{step}"
        assert life.run.progress.seconds()["warmup"] > 0
        done = step
    life = make_life(world)
    await TrainingLoop(life.run).run()
    reference, weights = unbroken
    assert life.learner.weights == weights
    assert work(world.events) == work(reference.events), "no step is lost or done twice, no weights published twice"
    assert rows(world.storage) == rows(reference.storage)
    assert report(world.storage)["progressPercentage"] == 100


@pytest.mark.parametrize("done", range(STEPS), ids=lambda done: f"after {done}")
@pytest.mark.parametrize("before", ["sft", "checkpoint"])
async def test_a_warm_up_that_dies_goes_on_from_its_last_checkpoint(
    world: Any,
    make_life: Callable[..., Any],
    unbroken: tuple[Any, int],
    crash: Callable[..., Any],
    done: int,
    before: str,
) -> None:
    reference, weights = unbroken
    first = reference.events.index("sft")
    world.crash_at = first + 2 * done + (before == "checkpoint")
    async with crash(before):
        await TrainingLoop(make_life(world).run, warmup_seconds_at_stake=0.0).run()
    life = make_life(world)
    await TrainingLoop(life.run, warmup_seconds_at_stake=0.0).run()
    assert life.learner.weights == weights
    assert world.events.count("sft") == STEPS + (before == "checkpoint")
    assert rows(world.storage) == rows(reference.storage)


async def test_a_short_warm_up_costs_no_checkpoint(unbroken: tuple[Any, int]) -> None:
    assert not [event for event in unbroken[0].events if event.startswith("checkpoint warmup")]


async def test_progress_after_a_stop_counts_the_steps_that_are_done(world: Any, make_life: Callable[..., Any]) -> None:
    """Fifty of a hundred steps of two seconds; 66 s are thought to come after them."""
    progress = make_life(world, warmup={"steps": 100, "batchSize": 2}).run.progress
    progress.resume(LoopState(warmup_step=50, seconds={"warmup": 100.0}))
    progress.advance("warmup", 10, 20.0)
    await progress.flush()
    assert report(world.storage)["progressPercentage"] == 100 * 120 // 266


async def test_a_checkpoint_of_a_version_that_kept_no_place_in_the_warm_up_is_loaded(
    world: Any, make_life: Callable[..., Any], unbroken: tuple[Any, int], crash: Callable[..., Any]
) -> None:
    reference, weights = unbroken
    world.crash_at = reference.events.index("checkpoint step-0") + 1
    async with crash():
        await TrainingLoop(make_life(world).run).run()
    path = world.storage / "checkpoints" / "step-0"
    saved = json.loads(path.read_text())
    del saved["extra"]["warmup_step"]
    path.write_text(json.dumps(saved))
    life = make_life(world)
    await TrainingLoop(life.run).run()
    assert (life.learner.weights, world.events.count("sft")) == (weights, STEPS)
