"""Decoder layers under torch.compile, which wants a C++ compiler and, for its code, a minute."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweyard_trainer.learner.attention import NAME, register_packed_attention
from sweyard_trainer.learner.batches import to_sequence
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.sequences import PackedBatch, pack
from sweyard_trainer.learner.sharding import compile_layers


def make_policy(directory: Path) -> Policy:
    register_packed_attention()
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation=NAME)
    return Policy(model)


def logprobs_and_gradient(policy: Policy, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    policy.zero_grad()
    logprobs, _ = policy(batch)
    torch.autograd.backward(logprobs.sum())
    gradient = policy.model.get_parameter("model.embed_tokens.weight").grad
    assert gradient is not None
    return logprobs.detach(), gradient.clone()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own code
def test_micro_batches_of_any_lengths_are_compiled_for_once(tiny_model: Path, make_segment) -> None:
    plain, compiled = make_policy(tiny_model), make_policy(tiny_model)
    compile_layers(compiled.model)
    for number, lengths in enumerate([(20, 30), (9, 40, 17), (50,), (6, 7, 8, 9, 10)]):
        batch = pack([to_sequence(make_segment(length, seed=length), 1.0) for length in lengths], torch.device("cpu"))
        with torch.compiler.set_stance("fail_on_recompile" if number else "default"):
            ours = logprobs_and_gradient(compiled, batch)
        torch.testing.assert_close(ours, logprobs_and_gradient(plain, batch))
