"""What a real vLLM server answers to one prompt, as the learner is given it, and what teaches another answer."""

import asyncio
from collections.abc import Sequence

import numpy as np

from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.vllm import VllmEngine
from sweyard_trainer.trajectory import Segment

PROMPT = list(range(20, 60))


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
