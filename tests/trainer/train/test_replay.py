"""A recorded step trained again, on a real (tiny) model, with nothing of a run but what it left."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import dump_config
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.replay import ReplayError, differing_figures, replay_step
from sweyard_trainer.rollouts.batches import NoBatchError, read_batch
from sweyard_trainer.rollouts.files import ROLLOUTS, step_label
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Trajectory

Groups = Sequence[Sequence[Trajectory]]
STEPS = 3


@dataclass
class Recorded:
    """A run of three steps, with a checkpoint after each and the weights of the last two."""

    directory: Path
    scratch: Path

    def seal(self, step: int, groups: Groups) -> None:
        """Record a step, its attempts in another order than that of the batch."""
        seal(self.directory / ROLLOUTS / step_label(step), [a for group in groups for a in group][::-1], groups)

    def forget_checkpoint(self, step: int) -> None:
        CheckpointStore(str(self.directory / "checkpoints")).remove(f"step-{step}")

    async def replay(self, step: int) -> Any:
        self.scratch.mkdir()
        return await replay_step(self.directory, step, self.scratch)


def metrics_row(step: int, figures: Mapping[str, float]) -> str:
    named = {f"train/{name}": value for name, value in figures.items()}
    return json.dumps({"phase": "rl", "step": step, "rollout/reward_mean": 0.5, **named}) + "\n"


@pytest.fixture
async def recorded(
    storage: Path, tmp_path_factory: pytest.TempPathFactory, make_spec: Callable[..., Any], make_trajectory: Any
) -> Recorded:
    run = Recorded(storage, tmp_path_factory.mktemp("replay") / "scratch")
    spec = make_spec()
    (storage / "config.yaml").write_text(dump_config(spec))
    (storage / "metrics").mkdir()
    learner = make_learner(spec, storage, num_threads=1)
    await learner.start()
    with (storage / "metrics" / "metrics.jsonl").open("w") as metrics:
        for step in range(1, STEPS + 1):
            groups = [
                [
                    make_trajectory(seed % 2, group=name, seed=100 * step + 10 * number + seed, length=20 + 7 * seed)
                    for seed in range(3)
                ]
                for number, name in enumerate("ba")
            ]
            run.seal(step, groups)
            metrics.write(metrics_row(step, await learner.train_step(groups, version=step - 1)))
            await learner.save_weights(step)
            await learner.save_checkpoint(step, LoopState(step=step, weight_version=step).to_dict())
    await learner.settle_checkpoint()
    await learner.stop()
    return run


def all_bytes(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


CASES: dict[str, tuple[list[int], int, int]] = {
    "from the checkpoint before it": ([], 3, 2),
    "from an earlier checkpoint, over the steps between": ([2], 3, 1),
    "from the initial weights, its own weights known from a checkpoint alone": ([], 1, 0),
}


@pytest.mark.parametrize(("forgotten", "step", "begun_after"), CASES.values(), ids=CASES)
async def test_a_step_trained_again_is_the_same_bit_for_bit(
    recorded: Recorded, forgotten: list[int], step: int, begun_after: int
) -> None:
    for number in forgotten:
        recorded.forget_checkpoint(number)
    before = all_bytes(recorded.directory)
    replayed = await recorded.replay(step)
    assert (replayed.begun_after, replayed.differing, replayed.same_weights) == (begun_after, {}, True)
    assert replayed.is_same
    assert replayed.figures["loss"] != 0
    assert all_bytes(recorded.directory) == before


async def test_another_batch_is_told_apart_by_figures_and_weights(recorded: Recorded) -> None:
    first, *others = read_batch(recorded.directory / ROLLOUTS, 3)
    recorded.seal(3, [[replace(attempt, reward=1 - attempt.reward) for attempt in first], *others])
    replayed = await recorded.replay(3)
    assert "loss" in replayed.differing
    assert replayed.same_weights is False
    assert not replayed.is_same


async def test_what_the_run_has_not_kept_is_not_compared(recorded: Recorded) -> None:
    (recorded.directory / "metrics" / "metrics.jsonl").write_text('{"phase": "rl", "step": 1, "train')
    recorded.forget_checkpoint(1)
    replayed = await recorded.replay(1)
    assert (replayed.differing, replayed.same_weights, replayed.is_same) == (None, None, True)


async def test_a_batch_that_trains_nothing_is_a_step_without_an_update(recorded: Recorded) -> None:
    recorded.seal(3, [])
    replayed = await recorded.replay(3)
    assert replayed.figures == {"updates": 0.0}
    assert replayed.same_weights is False


async def test_what_a_replay_lacks_is_told(recorded: Recorded, make_spec: Callable[..., Any]) -> None:
    config = recorded.directory / "config.yaml"
    with pytest.raises(NoBatchError, match="holds no step 4"):
        await replay_step(recorded.directory, 4, recorded.scratch)
    config.write_text(dump_config(make_spec(warmup={"steps": 2})))
    CheckpointStore(str(recorded.directory / "checkpoints")).begin(0, in_warmup=True)
    (recorded.directory / "checkpoints" / "warmup-0" / COMPLETE).touch()
    with pytest.raises(ReplayError, match=r"no checkpoint from before step 1 is left.*checkpoint.keep"):
        await replay_step(recorded.directory, 1, recorded.scratch)
    config.write_text(dump_config(make_spec(mode="sft", warmup={"steps": 2})))
    with pytest.raises(ReplayError, match="this is a run of mode sft"):
        await replay_step(recorded.directory, 3, recorded.scratch)
    (recorded.directory / "model").unlink()
    with pytest.raises(ReplayError, match="has no model/"):
        await replay_step(recorded.directory, 3, recorded.scratch)
    config.unlink()
    with pytest.raises(ReplayError, match=r"has no config.yaml"):
        await replay_step(recorded.directory, 3, recorded.scratch)


@pytest.mark.parametrize(
    ("recorded_figures", "differing"),
    [
        ({"loss": 0.1, "seconds": 9.0}, {}),
        ({"loss": 0.1 + 2**-55, "seconds": 1.0}, {"loss": (0.1 + 2**-55, 0.1)}),
        (None, None),
    ],
    ids=["the same but for its duration", "another last bit", "nothing recorded"],
)
def test_figures_are_compared_to_the_last_bit(recorded_figures: Any, differing: Any) -> None:
    assert differing_figures(recorded_figures, {"loss": 0.1, "seconds": 1.0}) == differing
