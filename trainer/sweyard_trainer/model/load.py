"""Load a policy from a directory in Hugging Face format."""

from pathlib import Path

import torch
from accelerate import init_empty_weights
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel


def empty_model(directory: Path, attention: str) -> PreTrainedModel:
    """The architecture with parameters on the meta device (no memory) and real buffers."""
    config = AutoConfig.from_pretrained(directory)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    model.tie_weights()
    assert isinstance(model, PreTrainedModel)
    return model


def full_state(directory: Path) -> dict[str, Tensor]:
    """All weights in float32 on the CPU, names as in the model."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    state = model.state_dict()
    assert isinstance(state, dict)
    return state
