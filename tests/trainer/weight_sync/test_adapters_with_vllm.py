"""Adapters trained here and loaded by a real vLLM, which keeps the base that it started with."""

from pathlib import Path

import pytest
from tests.trainer.weight_sync.vllm_samples import demonstration, sample, segment_of

from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

TEMPERATURE = 0.7
LOGPROB_TOLERANCE = 1e-3
"""Largest gap of one token's logprob: the product of base and adapter is rounded otherwise by vLLM, both in float32."""


async def test_an_engine_takes_adapters_and_agrees_with_the_learner(
    serve_vllm, make_spec, storage: Path, make_trajectory
) -> None:
    spec = make_spec(
        rollout={"maxPromptTokens": 256, "maxResponseTokens": 256, "maxStaleness": 1},
        trainer={"lora": {"rank": 8, "sync": "adapter"}},
        warmup={"steps": 40, "learningRate": 1e-2},
    )
    learner = make_learner(spec, storage, num_threads=2)
    await learner.start()
    try:
        with serve_vllm(spec, storage / "model") as url:
            fleet = Fleet(
                [DiskEngine(EngineControl(url), storage / "weights", as_adapter=True)], Patience(update=120, gone=120)
            )

            async def gap(version: int) -> float:
                group = [
                    make_trajectory(index % 2, segments=(segment_of(completion),), temperature=TEMPERATURE)
                    for index, completion in enumerate(await sample(url, version, TEMPERATURE))
                ]
                return (await learner.train_step([group]))["engine_logprob_gap_max"]

            reply = list(range(100, 124))
            assert list((await sample(url, 0, 0.0, count=1))[0].token_ids) != reply
            for _ in range(40):
                await learner.sft_step([demonstration(reply)])
            await learner.save_weights(1)
            await fleet.publish(1)
            assert list((await sample(url, 1, 0.0, count=1))[0].token_ids) == reply
            assert await gap(version=1) < LOGPROB_TOLERANCE  # and an update
            await learner.save_weights(2)
            await fleet.publish(2)
            assert await gap(version=2) < LOGPROB_TOLERANCE
    finally:
        await learner.stop()
