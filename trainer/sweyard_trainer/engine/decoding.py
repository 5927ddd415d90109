"""Batched decoding for small models: a row leaves the batch with its last token.

transformers' own `generate` computes every row until the longest is done, which took two thirds of the time where
most replies are short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from sweyard_trainer.engine.sampling import SeededSampler


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be continued, and until when."""

    ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    stop_token_ids: tuple[int, ...]
    seed: int


@dataclass(slots=True)
class Continuation:
    """[N] sampled tokens, the stop token included, and their logprobs."""

    token_ids: list[int]
    logprobs: list[float]
    is_stopped: bool = False
    """By a stop token, not by its limit."""


@torch.inference_mode()
def decode(model: PreTrainedModel, prompts: Sequence[Prompt]) -> list[Continuation]:
    """Continue all prompts together."""
    continuations = [Continuation([], []) for _ in prompts]
    ids, attention = _left_padded(prompts)
    sampler = SeededSampler([prompt.temperature for prompt in prompts], [prompt.seed for prompt in prompts])
    cache = DynamicCache(config=model.config)
    rows = [row for row, prompt in enumerate(prompts) if prompt.max_tokens > 0]
    position = (attention.cumsum(-1) - 1).clamp(min=0)
    if len(rows) < len(prompts):
        sampler.keep(rows)
        ids, attention, position = ids[rows], attention[rows], position[rows]
    while rows:
        output = model(
            input_ids=ids, attention_mask=attention, position_ids=position, past_key_values=cache, logits_to_keep=1
        )
        tokens, logprobs = sampler.draw(output.logits[:, -1])
        going_on = _take(rows, prompts, continuations, tokens.tolist(), logprobs.tolist())
        if len(going_on) < len(rows):
            rows, tokens = [rows[place] for place in going_on], tokens[going_on]
            attention, position = attention[going_on], position[going_on]
            sampler.keep(going_on)
            if rows:
                cache.batch_select_indices(torch.tensor(going_on))
        ids, position = tokens[:, None], position[:, -1:] + 1
        attention = torch.cat([attention, attention.new_ones(len(rows), 1)], dim=-1)
    return continuations


def _left_padded(prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
    """Ids and attention mask, [B, T]."""
    width = max(len(prompt.ids) for prompt in prompts)
    ids = torch.zeros((len(prompts), width), dtype=torch.long)
    attention = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt.ids) :] = torch.tensor(prompt.ids)
        attention[row, width - len(prompt.ids) :] = 1
    return ids, attention


def _take(
    rows: Sequence[int],
    prompts: Sequence[Prompt],
    continuations: Sequence[Continuation],
    tokens: Sequence[int],
    logprobs: Sequence[float],
) -> list[int]:
    """Append what was drawn; the places in `rows` of those that go on."""
    going_on = []
    for place, (row, token, logprob) in enumerate(zip(rows, tokens, logprobs, strict=True)):
        continuation, prompt = continuations[row], prompts[row]
        continuation.token_ids.append(token)
        continuation.logprobs.append(logprob)
        continuation.is_stopped = token in prompt.stop_token_ids
        if not continuation.is_stopped and len(continuation.token_ids) < prompt.max_tokens:
            going_on.append(place)
    return going_on
