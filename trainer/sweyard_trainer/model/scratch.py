"""A small Qwen3 with random weights. Qwen3, because transformers, vLLM and real runs all speak it."""

from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from sweyard_api.workload import ScratchModel
from sweyard_trainer.model.readable import make_readable

HEAD_DIM = 64
"""The least that vLLM's CPU attention takes."""


def scratch_config(model: ScratchModel, tokenizer: PreTrainedTokenizerFast, max_length: int) -> Qwen3Config:
    """Shape of the model: one key-value head, an MLP three times the width.

    The output layer is not tied to the embeddings: vLLM's CPU build packs it once and would sample with its first
    version for ever, whatever weights it is given later.
    """
    return Qwen3Config(
        vocab_size=model.vocabulary_size,
        hidden_size=model.hidden_size,
        intermediate_size=3 * model.hidden_size,
        num_hidden_layers=model.layers,
        num_attention_heads=model.hidden_size // HEAD_DIM,
        num_key_value_heads=1,
        head_dim=HEAD_DIM,
        max_position_embeddings=max_length,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )


def make_scratch_model(
    model: ScratchModel, tokenizer: PreTrainedTokenizerFast, max_length: int, seed: int, directory: Path
) -> None:
    """Write weights, config, generation config and tokenizer into `directory`; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Qwen3ForCausalLM(scratch_config(model, tokenizer, max_length))
    network.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    network.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    make_readable(directory)
