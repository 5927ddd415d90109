"""FSDP2 over real processes: one and two ranks train alike, and a dead rank is noticed."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import torch
from safetensors.torch import load_file

from sweyard_trainer.errors import RankDiedError, TrainingDivergedError
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner
from sweyard_trainer.learner.ray_ranks import RayRanks

LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 5e-6
"""After three updates of at most 1e-3 each: float32 sums in another order, through Adam with a large epsilon."""


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def two_ranks(make_spec):
    return make_spec(
        trainer={"processesPerReplica": 2},
        optimizer={"learningRate": 1e-3, "epsilon": 1e-5},
        algorithm={"minibatches": 2},
    )


@pytest.fixture
def one_rank(make_spec):
    return make_spec(optimizer={"learningRate": 1e-3, "epsilon": 1e-5}, algorithm={"minibatches": 2})


@pytest.fixture
def groups(make_trajectory):
    return [[make_trajectory(seed % 2, seed=seed, length=20 + 9 * seed) for seed in range(5)]]


async def train(learner: Learner, groups, make_segment) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of three supervised and three policy steps, and the weights after them."""
    losses = [(await learner.sft_step([make_segment(30, seed) for seed in range(3)]))["loss"] for _ in range(3)]
    losses += [(await learner.train_step(groups))["loss"] for _ in range(3)]
    return losses, load_file(await learner.save_weights(1) / "model.safetensors")


def assert_close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=WEIGHT_TOLERANCE, rtol=0)


async def test_two_ranks_train_like_one_read_its_checkpoints_and_notice_a_death(
    ray_cluster, one_rank, two_ranks, storage: Path, groups, make_segment, make_trajectory
) -> None:
    """One test, since each start of a rank imports PyTorch for ten seconds. Ranks that share each sequence are in
    test_rank_matrix.py, forked."""
    single = make_learner(one_rank, storage, num_threads=1)
    await single.start()
    try:
        losses, weights = await train(single, groups, make_segment)
        await single.save_checkpoint(3, {})
        await single.settle_checkpoint()
        further = (await single.train_step(groups))["loss"]
    finally:
        await single.stop()

    double = make_learner(two_ranks, storage, num_threads=1)
    await double.start()
    try:
        double_losses, double_weights = await train(double, groups, make_segment)
        assert double_losses == pytest.approx(losses, abs=LOSS_TOLERANCE)
        assert_close(double_weights, weights)
        assert await double.load_latest() == (3, {})
        await double.save_checkpoint(4, {"by": 2}, held=groups[0])
        assert (await double.train_step(groups))["loss"] == pytest.approx(further, abs=LOSS_TOLERANCE)
        await double.settle_checkpoint()
        broken = [[make_trajectory(seed % 2, seed=seed, length=20) for seed in range(4)]]
        broken[0][0].segments[0].logprobs[:] = float("nan")
        with pytest.raises(TrainingDivergedError, match="learningRate"):  # its type survives the way from the rank
            await double.train_step(broken)
        ranks = double._ranks
        assert isinstance(ranks, RayRanks)
        half_of_a_collective = asyncio.create_task(ranks.call("load_model", [()] * 2))
        ray.kill(ranks._actors[1])
        with pytest.raises(RankDiedError):
            await half_of_a_collective
    finally:
        await double.stop()

    single = make_learner(one_rank, storage, num_threads=1)
    await single.start()
    try:
        sums = json.loads((storage / "checkpoints" / "step-4" / "checksums.json").read_text())
        assert {"tensors/__0_0.distcp", "tensors/__1_0.distcp", "random-1.pt"} < sums.keys()
        assert await single.load_latest() == (4, {"by": 2})
        assert [attempt.attempt_id for attempt in await single.load_held()] == [one.attempt_id for one in groups[0]]
        assert (await single.train_step(groups))["loss"] == pytest.approx(further, abs=LOSS_TOLERANCE)
    finally:
        await single.stop()
