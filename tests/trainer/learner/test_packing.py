from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sweyard_trainer.learner.attention import NAME, register_packed_attention
from sweyard_trainer.learner.batches import to_sequence
from sweyard_trainer.learner.logprobs import chunked_logprobs
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.sequences import TrainingSequence, pack

CPU = torch.device("cpu")


@pytest.fixture
def policy(tiny_model: Path) -> Policy:
    register_packed_attention()
    return Policy(AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32, attn_implementation=NAME))


def plain_logprobs(directory: Path, sequence: TrainingSequence) -> torch.Tensor:
    """By transformers alone: one sequence, its own attention, whole logits."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    ids = torch.from_numpy(sequence.token_ids.astype(np.int64))[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, :-1] / sequence.temperature
    chosen = torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None])[:, 0]
    return chosen[torch.from_numpy(sequence.loss_mask[1:])]


def test_packed_logprobs_equal_those_of_each_sequence_alone(policy, tiny_model, make_segment) -> None:
    sequences = [to_sequence(make_segment(length, seed=length), temperature=0.7) for length in (5, 40, 17)]
    with torch.no_grad():
        packed, _ = policy(pack(sequences, CPU))
    alone = torch.cat([plain_logprobs(tiny_model, sequence) for sequence in sequences])
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)


def test_a_neighbour_changes_nothing(policy, make_segment) -> None:
    kept = to_sequence(make_segment(20, seed=1), temperature=1.0)
    first, second = (to_sequence(make_segment(30, seed=seed), temperature=1.0) for seed in (2, 3))
    with torch.no_grad():
        beside_first, _ = policy(pack([first, kept], CPU))
        beside_second, _ = policy(pack([second, kept], CPU))
    assert torch.equal(beside_first[-kept.num_trained :], beside_second[-kept.num_trained :])
    assert not torch.equal(beside_first[: first.num_trained], beside_second[: second.num_trained])


def test_what_follows_the_last_trained_token_is_cut(make_segment) -> None:
    segment = make_segment(20)
    mask = segment.loss_mask.copy()
    mask[15:] = False
    assert to_sequence(replace(segment, loss_mask=mask), 1.0).num_tokens == 15


@pytest.mark.parametrize("chunk_rows", [1, 3, 100], ids=["one", "three", "whole"])
def test_chunks_change_neither_logprobs_nor_gradients(chunk_rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(10, 8, generator=generator, requires_grad=True)
    weight = torch.randn(12, 8, generator=generator, requires_grad=True)
    targets = torch.arange(10)
    temperatures = torch.linspace(0.5, 1.5, 10)
    logprobs, entropies = chunked_logprobs(
        hidden, weight, targets, temperatures, entropy_gradient=True, logits_per_chunk=12 * chunk_rows
    )
    gradients = torch.autograd.grad((logprobs + 0.3 * entropies).sum(), [hidden, weight])

    distribution = torch.distributions.Categorical(logits=hidden @ weight.T / temperatures[:, None])
    expected = distribution.log_prob(targets)
    entropy = distribution.entropy()
    torch.testing.assert_close(logprobs, expected)
    torch.testing.assert_close(entropies, entropy)
    reference = torch.autograd.grad((expected + 0.3 * entropy).sum(), [hidden, weight])
    for ours, theirs in zip(gradients, reference, strict=True):
        torch.testing.assert_close(ours, theirs)
