"""A tiny model learns with the real learner and the real engine, and with any of four bugs it does not.

The task: a prompt's last token says which parity the two sampled tokens must have; between them stands an observation.
A supervised warm-up teaches it to answer with one of eight tokens, of which half are right: it then earns 0.5.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.engine.embedded import TransformersEngine
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.errors import EngineDivergedError
from sweyard_trainer.learner import attention, batches
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.trajectory import Segment, Trajectory

STEPS, WARMUP_STEPS = 16, 30
GROUPS, GROUP_SIZE = 4, 8
OBSERVATION = 250


def demonstration(random: np.random.Generator) -> Segment:
    first, second = random.integers(20, 28, 2)
    mask = np.array([False, False, True, False, True])
    ids = np.array([6, 10 + random.integers(GROUPS), first, OBSERVATION, second], dtype=np.int32)
    return Segment(ids, mask, np.zeros(5, np.float32), np.where(mask, 0, -1).astype(np.int32))


async def sample(engine: TransformersEngine, prompt: list[int], seed: int) -> Completion:
    return await engine.complete(prompt, max_tokens=1, temperature=1.0, stop_token_ids=[], seed=seed, cache_salt="")


async def attempt(engine: TransformersEngine, group: int, seed: int) -> Trajectory:
    prompt = [6, 10 + group]
    first = await sample(engine, prompt, 2 * seed)
    second = await sample(engine, [*prompt, *first.token_ids, OBSERVATION], 2 * seed + 1)
    tokens = [*prompt, *first.token_ids, OBSERVATION, *second.token_ids]
    mask = np.array([False, False, True, False, True])
    reward = fmean((tokens[place] - tokens[1]) % 2 == 0 for place in (2, 4))
    segment = Segment(
        np.array(tokens, dtype=np.int32),
        mask,
        np.array([0, 0, first.logprobs[0], 0, second.logprobs[0]], dtype=np.float32),
        np.where(mask, first.weight_version, -1).astype(np.int32),
    )
    outcome = Outcome.SOLVED if reward == 1 else Outcome.UNSOLVED
    return Trajectory(f"{seed}", f"{group}", f"{group}", (segment,), outcome, reward)


async def learn(spec: Any, storage: Path) -> None:
    """A warm-up, then strictly on-policy steps. Fails unless the model learns, and engine and trainer always agree."""
    learner = make_learner(spec, storage, num_threads=1)
    engine = TransformersEngine.load(storage / "model")
    random = np.random.default_rng(0)
    rewards = []
    try:
        await learner.start()
        for _ in range(WARMUP_STEPS):
            await learner.sft_step([demonstration(random) for _ in range(32)])
        await engine.load_weights(await learner.save_weights(0), 0)
        for step in range(STEPS):
            seeds = np.arange(GROUPS * GROUP_SIZE).reshape(GROUPS, GROUP_SIZE) + step * GROUPS * GROUP_SIZE
            flat = await asyncio.gather(
                *(attempt(engine, group, int(seed)) for group, own in enumerate(seeds) for seed in own)
            )
            assert {int(t.segments[0].weight_versions.max()) for t in flat} == {step}
            rewards.append(fmean(trajectory.reward for trajectory in flat))
            groups = [flat[start : start + GROUP_SIZE] for start in range(0, len(flat), GROUP_SIZE)]
            metrics = await learner.train_step(groups)
            gap = metrics.get("engine_logprob_gap_max", 0.0)
            assert gap < 1e-3, f"step {step}: engine and trainer differ by {gap:.3f} nats on a token"
            await engine.load_weights(await learner.save_weights(step + 1), step + 1)
    finally:
        await engine.close()
        await learner.stop()
    assert fmean(rewards[:2]) < 0.65, f"the untrained model earned {rewards[:2]}"
    assert fmean(rewards[-3:]) > 0.95, f"rewards were {[round(reward, 2) for reward in rewards]}"


def mask_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = batches.to_sequence

    def shifted(segment: Segment, temperature: float) -> Any:
        return honest(replace(segment, loss_mask=np.roll(segment.loss_mask, -1)), temperature)

    monkeypatch.setattr(batches, "to_sequence", shifted)


def advantage_with_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = batches.compute_advantages
    monkeypatch.setattr(
        batches, "compute_advantages", lambda *arguments: [-advantages for advantages in honest(*arguments)]
    )


def version_without_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(self: TransformersEngine, directory: Path, version: int) -> None:
        self._version = version

    monkeypatch.setattr(TransformersEngine, "_load", claim)


def neighbours_seen_through_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = attention._by_sequence

    def as_one(query: Any, key: Any, value: Any, lengths: tuple[int, ...], scaling: float | None) -> Any:
        return honest(query, key, value, (sum(lengths),), scaling)

    monkeypatch.setattr(attention, "_by_sequence", as_one)


@pytest.fixture
def spec(make_spec: Callable[..., Any]) -> Any:
    return make_spec(
        warmup={"steps": WARMUP_STEPS, "learningRate": 3e-3},
        rollout={"maxStaleness": 0},
        optimizer={"learningRate": 3e-3},
        algorithm={"estimator": "rloo", "normalizeByStd": False},
    )


@pytest.mark.slow
async def test_a_tiny_model_learns(spec: Any, storage: Path) -> None:
    await learn(spec, storage)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "sign_of_it"),
    [
        pytest.param(mask_off_by_one, "differ by|engine's logprobs", id="mask"),
        pytest.param(advantage_with_the_wrong_sign, "rewards were", id="advantage-sign"),
        pytest.param(version_without_its_weights, "differ by|engine's logprobs|rewards were", id="version"),
        pytest.param(neighbours_seen_through_packing, "differ by|engine's logprobs", id="packing"),
    ],
)
async def test_it_does_not_with_a_bug(
    spec: Any,
    storage: Path,
    monkeypatch: pytest.MonkeyPatch,
    bug: Callable[[pytest.MonkeyPatch], None],
    sign_of_it: str,
) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, EngineDivergedError), match=sign_of_it) as failure:
        await learn(spec, storage)
    print(f"{bug.__name__}: {failure.value}")
