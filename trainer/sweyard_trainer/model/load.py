"""Load a policy from a directory in Hugging Face format."""

from pathlib import Path

import torch
from accelerate import init_empty_weights
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.model.four_bit import CODES, SCALES, quantize
from sweyard_trainer.model.lora import initial_adapter, plain_name

SHOWN = 3
"""Names in a sentence."""


def empty_model(directory: Path, attention: str) -> PreTrainedModel:
    """The architecture with parameters on the meta device (no memory) and real buffers."""
    config = AutoConfig.from_pretrained(directory)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    model.tie_weights()
    assert isinstance(model, PreTrainedModel)
    return model


def full_state(directory: Path, empty: PreTrainedModel, seed: int, base: str = "full") -> dict[str, Tensor]:
    """All weights of `empty` in float32 on the CPU, by its names; adapters as they start, weights under them as `base`
    (see Lora). Raises UnsupportedError where the files lack some, which transformers would make up."""
    model, told = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
    if lacking := sorted(told["missing_keys"]):
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        raise UnsupportedError(
            f"model.name: the files in {directory} lack {', '.join(lacking[:SHOWN])}{more}, which a "
            f"{type(model).__name__} has: take a whole model"
        )
    loaded = model.state_dict()
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}
    for name, tensor in empty.state_dict().items():
        if name.endswith(CODES):
            layer = name.removesuffix(CODES)
            state[name], state[layer + SCALES] = quantize(loaded[plain_name(f"{layer}.weight")], base)
        if name in state:
            continue
        adapter = initial_adapter(name, tensor.shape, generator)
        state[name] = loaded[plain_name(name)] if adapter is None else adapter
    return state
