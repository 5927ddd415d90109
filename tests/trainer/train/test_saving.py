"""When checkpoints are taken, which is the best, and what a failed one does to the run."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.errors import CheckpointError
from sweyard_trainer.phases.saving import steps_by_score
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.train import TrainingLoop


def reports(**scores: float) -> list[dict[str, Any]]:
    return [{"source": source, "solved_fraction": score} for source, score in scores.items()]


@pytest.mark.parametrize(
    ("evaluations", "best_first"),
    [
        ({}, []),
        ({"untrained": reports(held=1.0)}, []),
        ({"warmed-up": reports(held=0.5), "step-3": reports(held=0.25), "final": reports(held=0.75)}, [10, 0, 3]),
        ({"step-3": reports(held=0.5), "step-6": reports(held=0.5)}, [3, 6]),
        ({"step-3": reports(held=0.1, other=1.0), "step-6": reports(held=0.2, other=0.0)}, [6, 3]),
        ({"step-3": reports(other=1.0)}, []),
    ],
    ids=["nothing", "nothing to keep", "by score", "of equals the first", "one source decides", "not evaluated"],
)
def test_evaluated_steps_are_ranked_by_the_source_that_decides(evaluations: Any, best_first: list[int]) -> None:
    assert steps_by_score(evaluations, "held", last_step=10) == best_first


async def test_the_best_evaluated_step_is_saved_and_kept(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(
        world,
        tasks={"train": {"dataset": "train"}, "eval": [{"dataset": "held", "name": "held"}]},
        evaluation={"everySteps": 1},
        checkpoint={"everySteps": 6, "bestBy": "held"},
    )
    solved_at = {"eval-step-3": 1.0}
    run = life.worker.run

    async def graded(plan: AttemptPlan) -> Any:
        attempt = await run(plan)
        if plan.attempt_id.startswith("eval-"):
            solved = solved_at.get(plan.attempt_id.rsplit("-", 1)[0], 0.0)
            return replace(attempt, outcome=Outcome.SOLVED if solved else Outcome.UNSOLVED)
        return attempt

    life.worker.run = graded
    await TrainingLoop(life.run).run()
    saved = [event for event in world.events if event.startswith("checkpoint")]
    assert saved == [f"checkpoint step-{step}" for step in range(7)], "which is the best is known a step later"
    assert life.learner.best_first[0] == 3
    assert json.loads((world.storage / "progress.json").read_text())["bestCheckpointStep"] == 3


async def test_a_checkpoint_that_could_not_be_written_ends_the_life_and_is_told_of_by_none(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    begin = life.learner.save_checkpoint

    async def lost(step: int, *arguments: Any, **options: Any) -> str:
        if step == 4:
            life.learner.failure = CheckpointError("the bucket is gone")
        return await begin(step, *arguments, **options)

    life.learner.save_checkpoint = lost
    with pytest.raises(CheckpointError, match="the bucket is gone"):
        await TrainingLoop(life.run).run()
    assert world.events.count("train") == 5, "noticed after the step that went on beside it"
    assert json.loads((world.storage / "progress.json").read_text())["lastCheckpoint"] == "checkpoints/step-3"
