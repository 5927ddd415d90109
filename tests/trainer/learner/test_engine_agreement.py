"""Engine and trainer are one policy on the tokens that the trained weights sampled, or the run ends."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.trainer.learner.started import started

from sweyard_trainer.engine.embedded import TransformersEngine
from sweyard_trainer.errors import EngineDivergedError
from sweyard_trainer.trajectory import Segment


async def test_trainer_logprobs_equal_the_engines_at_its_temperature(make_spec, storage, make_trajectory) -> None:
    engine = TransformersEngine.load(storage / "model")
    prompt = list(range(10, 30))
    try:
        completions = await asyncio.gather(
            *(
                engine.complete(prompt, max_tokens=12, temperature=0.6, stop_token_ids=[], seed=seed, cache_salt="")
                for seed in range(4)
            )
        )
    finally:
        await engine.close()
    group = [
        make_trajectory(index % 2, segments=(sampled(prompt, completion),), temperature=0.6)
        for index, completion in enumerate(completions)
    ]
    async with started(make_spec(), storage) as learner:
        metrics = await learner.train_step([group])
        wrong = await learner.train_step([[replace(trajectory, temperature=1.0) for trajectory in group]])
    assert metrics["engine_logprob_gap_max"] < 1e-4
    assert metrics["engine_kl"] < 1e-8
    assert wrong["engine_logprob_gap_max"] > 0.01


def sampled(prompt: list[int], completion: Any) -> Segment:
    mask = np.arange(len(prompt) + len(completion.token_ids)) >= len(prompt)
    return Segment(
        np.array([*prompt, *completion.token_ids], np.int32),
        mask,
        np.concatenate([np.zeros(len(prompt)), completion.logprobs]).astype(np.float32),
        np.where(mask, 0, -1).astype(np.int32),
    )


async def test_an_engine_with_other_weights_stops_an_on_policy_run(
    make_spec, storage, make_trajectory, make_segment
) -> None:
    group = [make_trajectory(seed % 2, segments=(make_segment(24, seed, logprob=-0.5),)) for seed in range(4)]
    async with started(make_spec(rollout={"maxStaleness": 0}), storage) as learner:
        with pytest.raises(EngineDivergedError, match="nats a token"):
            await learner.train_step([group])
    fixed = {"placement": "external", "url": "http://engine", "fixedWeights": True}
    for spec in (make_spec(), make_spec(rollout={"maxStaleness": 0}, inference=fixed)):
        async with started(spec, storage) as learner:
            assert (await learner.train_step([group]))["updates"] == 1


async def test_with_staleness_the_tokens_of_the_trained_weights_alone_can_stop_the_run(
    make_spec, storage, make_trajectory, make_segment, caplog: pytest.LogCaptureFixture
) -> None:
    long = [make_segment(200, seed, logprob=-0.5) for seed in range(4)]
    group = [make_trajectory(seed % 2, segments=(segment,)) for seed, segment in enumerate(long)]
    few = [make_trajectory(seed % 2, segments=(make_segment(24, seed, logprob=-0.5),)) for seed in range(4)]
    async with started(make_spec(), storage) as learner:
        stale = await learner.train_step([group], version=1)
        assert (stale["updates"], stale["fresh_tokens"]) == (1, 0)
        assert "fresh_engine_kl" not in stale
        assert "nats each away from the weights that they train" in caplog.text
        assert (await learner.train_step([few], version=0))["fresh_tokens"] == 48
        with pytest.raises(EngineDivergedError, match=r"more than algorithm\.maxEngineKl"):
            await learner.train_step([group], version=0)
    caplog.clear()
    async with started(make_spec(algorithm={"maxEngineKl": 100}), storage) as learner:
        allowed = await learner.train_step([group], version=0)
        assert (allowed["updates"], allowed["fresh_tokens"]) == (1, 400)
        assert allowed["fresh_engine_kl"] == pytest.approx(allowed["engine_kl"])
        assert "nats each away" not in caplog.text
