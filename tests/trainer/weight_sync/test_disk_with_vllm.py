"""A real vLLM server, a real learner and the shared directory between them."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.vllm import VllmEngine
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.trajectory import Segment
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PROMPT = list(range(20, 60))
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


async def sample(url: str, version: int, temperature: float, count: int = 8) -> list[Completion]:
    engine = VllmEngine(url, deadline_seconds=120)
    assert await engine.weight_version() == version
    try:
        requests = (
            engine.complete(
                PROMPT,
                max_tokens=24,
                temperature=temperature,
                stop_token_ids=[],
                seed=seed,
                cache_salt=str(version),
            )
            for seed in range(count)
        )
        return list(await asyncio.gather(*requests))
    finally:
        await engine.close()


def segment_of(completion: Completion) -> Segment:
    mask = np.arange(len(PROMPT) + len(completion.token_ids)) >= len(PROMPT)
    logprobs = np.concatenate([np.zeros(len(PROMPT)), completion.logprobs]).astype(np.float32)
    ids = np.array([*PROMPT, *completion.token_ids], np.int32)
    return Segment(ids, mask, logprobs, np.where(mask, 0, -1).astype(np.int32))


def demonstration(reply: Sequence[int]) -> Segment:
    mask = np.arange(len(PROMPT) + len(reply)) >= len(PROMPT)
    return Segment(np.array([*PROMPT, *reply], np.int32), mask, np.zeros(len(mask), np.float32), -np.ones(len(mask)))


async def test_the_engine_takes_new_weights_and_agrees_with_the_learner(
    url: str, spec: TrainingRunSpec, storage: Path, make_trajectory
) -> None:
    learner = make_learner(spec, storage, num_threads=2)
    await learner.start()
    engine = DiskEngine(EngineControl(url), storage / "weights")
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
    finally:
        await learner.stop()
