import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.embedded import TransformersEngine
from sweyard_trainer.engine.engine import Completion, EmbeddedEngine

PROMPTS = [[5, 6, 7], [9, 10, 11, 12, 13, 14, 15, 16], [40], [100, 3, 100, 3, 100]]


@pytest.fixture
async def engine(small_model: Any) -> AsyncIterator[TransformersEngine]:
    engine = TransformersEngine(small_model, max_batch=8)
    yield engine
    await engine.close()


async def complete(engine: TransformersEngine, prompt: list[int], seed: int = 0, **changes: Any) -> Completion:
    options: dict[str, Any] = {"max_tokens": 12, "temperature": 0.8, "stop_token_ids": [], "cache_salt": ""}
    return await engine.complete(prompt, seed=seed, **{**options, **changes})


@torch.inference_mode()
def logprobs_of(model: Any, prompt: list[int], reply: tuple[int, ...], temperature: float) -> list[float]:
    logits = model(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
    scores = torch.log_softmax(logits.float() / temperature, dim=-1)
    return scores.gather(-1, torch.tensor(reply)[:, None])[:, 0].tolist()


async def test_logprobs_are_those_of_the_model_at_the_sampling_temperature(
    engine: TransformersEngine, small_model: Any
) -> None:
    completions = await asyncio.gather(*(complete(engine, prompt, seed=n) for n, prompt in enumerate(PROMPTS)))
    for prompt, completion in zip(PROMPTS, completions, strict=True):
        expected = logprobs_of(small_model, prompt, completion.token_ids, 0.8)
        assert completion.logprobs == pytest.approx(expected, abs=2e-4)
        assert len(completion.token_ids) == 12


async def test_a_request_gets_the_same_tokens_whatever_else_is_in_its_batch(engine: TransformersEngine) -> None:
    alone = [await complete(engine, prompt, seed=n) for n, prompt in enumerate(PROMPTS)]
    together = await asyncio.gather(*(complete(engine, prompt, seed=n) for n, prompt in enumerate(PROMPTS)))
    assert [c.token_ids for c in alone] == [c.token_ids for c in together]


async def test_seeds_make_different_samples_and_greedy_ignores_them(engine: TransformersEngine) -> None:
    sampled = {(await complete(engine, PROMPTS[0], seed=seed)).token_ids for seed in range(5)}
    greedy = {(await complete(engine, PROMPTS[0], seed=seed, temperature=0.0)).token_ids for seed in range(3)}
    assert len(sampled) > 3
    assert len(greedy) == 1


async def test_samples_follow_the_models_distribution(engine: TransformersEngine, small_model: Any) -> None:
    draws = 400
    replies = await asyncio.gather(*(complete(engine, [5, 6], seed=seed, max_tokens=1) for seed in range(draws)))
    with torch.inference_mode():
        probabilities = torch.softmax(small_model(torch.tensor([[5, 6]])).logits[0, -1].float() / 0.8, dim=-1)
    counts = torch.zeros_like(probabilities)
    for reply in replies:
        counts[reply.token_ids[0]] += 1
    likely = probabilities > 0.02
    spread = (probabilities * (1 - probabilities) / draws).sqrt()
    assert bool(likely.any())
    assert bool(((counts / draws - probabilities).abs() < 4.5 * spread)[likely].all())


async def test_a_reply_ends_with_its_stop_token(engine: TransformersEngine) -> None:
    free = await complete(engine, PROMPTS[1], seed=3)
    stop = free.token_ids[5]
    first = free.token_ids.index(stop)
    stopped, other = await asyncio.gather(
        complete(engine, PROMPTS[1], seed=3, stop_token_ids=[stop]), complete(engine, PROMPTS[1], seed=3)
    )
    assert stopped.token_ids == free.token_ids[: first + 1]
    assert stopped.finish_reason is FinishReason.STOP
    assert len(stopped.logprobs) == len(stopped.token_ids)
    assert other.finish_reason is FinishReason.LENGTH


async def test_each_request_keeps_its_own_token_limit(engine: TransformersEngine) -> None:
    replies = await asyncio.gather(*(complete(engine, PROMPTS[0], max_tokens=count) for count in (1, 4, 9)))
    assert [len(reply.token_ids) for reply in replies] == [1, 4, 9]


async def test_new_weights_are_used_and_named(engine: TransformersEngine, small_model: Any, tmp_path: Path) -> None:
    assert isinstance(engine, EmbeddedEngine)
    before = await complete(engine, PROMPTS[0], temperature=0.0)
    changed = deepcopy(small_model)
    with torch.no_grad():
        changed.model.embed_tokens.weight.copy_(changed.model.embed_tokens.weight.roll(7, dims=0))
    changed.save_pretrained(tmp_path / "3")
    original = deepcopy(small_model)
    original.save_pretrained(tmp_path / "4")
    await engine.load_weights(tmp_path / "3", 3)
    after = await complete(engine, PROMPTS[0], temperature=0.0)
    assert (before.weight_version, after.weight_version) == (0, 3)
    expected = logprobs_of(changed, PROMPTS[0], after.token_ids, 1.0)
    assert after.logprobs == pytest.approx(expected, abs=2e-4)
    await engine.load_weights(tmp_path / "4", 4)
    assert (await complete(engine, PROMPTS[0], temperature=0.0)).token_ids == before.token_ids


async def test_weights_of_another_model_are_refused(engine: TransformersEngine, tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(64), "stranger": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="do not fit"):
        await engine.load_weights(tmp_path, 1)


async def test_a_prompt_the_model_cannot_take_fails_its_own_request(engine: TransformersEngine) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        await complete(engine, [9_999])
    assert (await complete(engine, PROMPTS[0])).token_ids
