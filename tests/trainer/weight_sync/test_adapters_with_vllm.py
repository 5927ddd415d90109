"""Adapters over a base in four bits, trained here and loaded by a real vLLM that serves the same base."""

from pathlib import Path

import pytest
from tests.trainer.weight_sync.vllm_samples import demonstration, sample, segment_of

from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

TEMPERATURE = 0.7
LOGPROB_TOLERANCE = 0.1
"""Largest gap of one token's logprob: vLLM multiplies four bits in bfloat16 alone, and so do we here."""


async def test_an_engine_over_four_bits_takes_adapters_and_agrees_with_the_learner(
    serve_vllm, make_spec, tiny_model: Path, tmp_path: Path, make_trajectory
) -> None:
    spec = make_spec(
        model={"name": str(tiny_model)},
        rollout={"maxPromptTokens": 256, "maxResponseTokens": 256, "maxStaleness": 1},
        trainer={"dtype": "bfloat16", "lora": {"rank": 8, "base": "int4", "sync": "adapter"}},
        inference={"weights": "int4"},
        warmup={"steps": 40, "learningRate": 1e-2},
    )
    model = prepare_model(spec, tmp_path)
    learner = make_learner(spec, tmp_path, num_threads=2)
    await learner.start()
    try:
        with serve_vllm(spec, model) as url:
            fleet = Fleet(
                [DiskEngine(EngineControl(url), tmp_path / "weights", as_adapter=True)], Patience(update=120, gone=120)
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
            assert await gap(version=1) < LOGPROB_TOLERANCE
    finally:
        await learner.stop()
