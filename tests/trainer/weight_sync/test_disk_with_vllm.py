"""A real vLLM server, a real learner and the shared directory between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.weight_sync.vllm_samples import demonstration, sample, segment_of

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.weight_sync.colocated import ColocatedEngine, ColocatedFleet
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

TEMPERATURE = 0.7
LOGPROB_TOLERANCE = 1e-4
"""Largest gap of one token's logprob between vLLM's kernels and ours, both float32 on a CPU."""


@pytest.fixture
def spec(make_spec) -> TrainingRunSpec:
    return make_spec(
        rollout={"maxPromptTokens": 256, "maxResponseTokens": 256, "maxStaleness": 1},
        warmup={"steps": 30, "learningRate": 3e-3},
    )


@pytest.fixture
def url(serve_vllm, spec: TrainingRunSpec, tiny_model: Path) -> Iterator[str]:
    with serve_vllm(spec, tiny_model) as url:
        yield url


async def test_the_engine_takes_new_weights_and_agrees_with_the_learner(
    url: str, spec: TrainingRunSpec, storage: Path, make_trajectory
) -> None:
    learner = make_learner(spec, storage, num_threads=2)
    await learner.start()
    control = EngineControl(url)
    engine = DiskEngine(control, storage / "weights")
    publish = Fleet([engine], Patience(update=120, gone=120)).publish

    async def gap(version: int) -> float:
        group = [
            make_trajectory(index % 2, segments=(segment_of(completion),), temperature=TEMPERATURE)
            for index, completion in enumerate(await sample(url, version, TEMPERATURE))
        ]
        return (await learner.train_step([group]))["engine_logprob_gap_max"]

    try:
        before = await sample(url, 0, 0.0, count=1)
        reply = list(range(100, 124))
        for _ in range(30):
            await learner.sft_step([demonstration(reply)])
        await learner.save_weights(1)
        await publish(1)
        after = await sample(url, 1, 0.0, count=1)
        assert list(after[0].token_ids) == reply
        assert list(before[0].token_ids) != reply
        assert await gap(version=1) < LOGPROB_TOLERANCE

        await learner.train_step([[make_trajectory(index % 2, seed=index) for index in range(4)]])
        assert await gap(version=1) > LOGPROB_TOLERANCE  # the learner has moved on, the engine has not
        await learner.save_weights(2)
        await publish(2)
        assert await gap(version=2) < LOGPROB_TOLERANCE

        turns = ColocatedFleet([ColocatedEngine(control, engine)], Patience(update=120, gone=120), learner)
        await turns.rest()
        assert await control.served_version() == "paused"
        await learner.train_step([[make_trajectory(index % 2, seed=index) for index in range(4)]])
        await learner.save_weights(3)
        await turns.publish(3)
        assert await gap(version=3) < LOGPROB_TOLERANCE
    finally:
        await learner.stop()
