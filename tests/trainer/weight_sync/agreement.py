"""What a real vLLM server and a real learner must agree on when weights go from one to the other by a directory."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sweyard_api.engine_command import engine_takes_adapters
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.vllm import VllmEngine
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.trajectory import Segment, Trajectory
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

PROMPT = list(range(20, 60))
TEMPERATURE = 0.7


@dataclass(frozen=True)
class Case:
    """What is trained and sent, and how near the engine's logprobs must then be to the learner's."""

    tolerance: float
    """Largest gap of one token's logprob between vLLM's kernels and ours on a CPU."""
    learning_rate: float
    sections: dict[str, Any] = field(default_factory=dict)

    def spec(self, make_spec: Callable[..., TrainingRunSpec], model: Path) -> TrainingRunSpec:
        return make_spec(
            model={"name": str(model)},
            rollout={"maxPromptTokens": 256, "maxResponseTokens": 256, "maxStaleness": 1},
            warmup={"steps": 30, "learningRate": self.learning_rate},
            **self.sections,
        )


WHOLE = Case(tolerance=1e-4, learning_rate=3e-3)
"""All weights go."""


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


async def largest_gap(learner: Learner, url: str, version: int, make_trajectory: Callable[..., Trajectory]) -> float:
    """Of a token's logprobs, engine's and learner's, which is one step further then."""
    group = [
        make_trajectory(index % 2, segments=(segment_of(completion),), temperature=TEMPERATURE)
        for index, completion in enumerate(await sample(url, version, TEMPERATURE))
    ]
    return (await learner.train_step([group]))["engine_logprob_gap_max"]


Serve = Callable[[TrainingRunSpec, Path], AbstractContextManager[str]]


async def check_agreement(
    case: Case, spec: TrainingRunSpec, serve_vllm: Serve, storage: Path, make_trajectory: Callable[..., Trajectory]
) -> None:
    """The engine takes two versions, and after each samples with the logprobs that the learner has."""
    with serve_vllm(spec, prepare_model(spec, storage)) as url:
        learner = make_learner(spec, storage, num_threads=2)
        await learner.start()
        engine = DiskEngine(EngineControl(url), storage / "weights", as_adapter=engine_takes_adapters(spec))
        publish = Fleet([engine], Patience(update=120, gone=120)).publish

        async def gap(version: int) -> float:
            return await largest_gap(learner, url, version, make_trajectory)

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
            assert await gap(version=1) < case.tolerance

            await learner.train_step([[make_trajectory(index % 2, seed=index) for index in range(4)]])
            assert await gap(version=1) > case.tolerance  # the learner has moved on, the engine has not
            await learner.save_weights(2)
            await publish(2)
            assert await gap(version=2) < case.tolerance
        finally:
            await learner.stop()
