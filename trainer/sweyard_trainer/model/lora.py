"""Low-rank adapters by peft, and folding them back into plain weights, which is what engines and files get."""

import math

import torch
from accelerate import init_empty_weights
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor
from transformers import PreTrainedModel

from sweyard_api.infrastructure import Lora

ADAPTER = "default"
_A, _B = f".lora_A.{ADAPTER}.weight", f".lora_B.{ADAPTER}.weight"


def add_adapters(model: PreTrainedModel, lora: Lora) -> None:
    """Put adapters (on the meta device) into an empty model and freeze the rest."""
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.target_modules or "all-linear", task_type="CAUSAL_LM"
    )
    with init_empty_weights(include_buffers=False):
        inject_adapter_in_model(config, model, adapter_name=ADAPTER)


def plain_name(name: str) -> str:
    """Of a weight in a model with adapters, its name in the model without."""
    return name.replace(".base_layer.", ".")


def initial_adapter(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor | None:
    """A starts random and B at zero, so that nothing has changed yet (arXiv 2106.09685); None for other weights."""
    if name.endswith(_B):
        return torch.zeros(shape)
    if name.endswith(_A):
        bound = 1 / math.sqrt(shape[1])
        return torch.empty(shape).uniform_(-bound, bound, generator=generator)
    return None


def fold_adapters(state: dict[str, Tensor], lora: Lora) -> dict[str, Tensor]:
    """Whole plain weights: base + alpha / rank * B A. Names as in the model without adapters."""
    folded = {plain_name(name): tensor for name, tensor in state.items() if not name.endswith((_A, _B))}
    for name in [name for name in state if name.endswith(_A)]:
        module = name.removesuffix(_A)
        change = state[module + _B] @ state[name] * (lora.alpha / lora.rank)
        folded[f"{module}.weight"] = folded[f"{module}.weight"] + change
    return folded
