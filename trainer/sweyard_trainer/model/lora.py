"""Low-rank adapters by peft, and folding them back into plain weights, which is what engines and files get.

peft is imported where there are adapters: it takes each process half a second.
"""

import math
from pathlib import Path

import torch
from accelerate import init_empty_weights
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from sweyard_api.infrastructure import Lora
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.model.four_bit import hold_in_four_bits, whole_weights
from sweyard_trainer.model.readable import make_readable

ADAPTER = "default"
_A, _B = f".lora_A.{ADAPTER}.weight", f".lora_B.{ADAPTER}.weight"


def add_adapters(model: PreTrainedModel, lora: Lora) -> None:
    """Put adapters (on the meta device) into an empty model and freeze the rest.

    Raises UnsupportedError for targets that are no linear layers of the model.
    """
    from peft import LoraConfig, inject_adapter_in_model

    # The output layer has a head of its own in training (learner/logprobs.py), which would leave an adapter out.
    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    names = [name for name, module in linear if module is not model.get_output_embeddings()]
    for target in lora.target_modules:
        if not any(f".{name}".endswith(f".{target}") for name in names):
            there_are = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in names}))
            raise UnsupportedError(
                f"trainer.lora.targetModules names {target!r}, which is none of the model's linear layers that can be "
                f"adapted: there are {there_are}; or leave it out, for all"
            )
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.target_modules or "all-linear", task_type="CAUSAL_LM"
    )
    with init_empty_weights(include_buffers=False):
        inject_adapter_in_model(config, model, adapter_name=ADAPTER)
    if lora.base != "full":
        hold_in_four_bits(model, lora.base)


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


def save_adapter(state: dict[str, Tensor], lora: Lora, model: str, directory: Path) -> None:
    """The adapters alone, as peft and vLLM read them; `model` is what they belong to."""
    from peft import LoraConfig

    adapters = {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": tensor.contiguous()
        for name, tensor in state.items()
        if name.endswith((_A, _B))
    }
    modules = sorted({name.removesuffix(_A).rsplit(".", 1)[1] for name in state if name.endswith(_A)})
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=modules, task_type="CAUSAL_LM")
    config.base_model_name_or_path = model
    config.inference_mode = True
    directory.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(directory)
    save_file(adapters, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    make_readable(directory)


def fold_adapters(state: dict[str, Tensor], lora: Lora) -> dict[str, Tensor]:
    """Whole plain weights: base + alpha / rank * B A. Names as in the model without adapters."""
    state = state if lora.base == "full" else whole_weights(state, lora.base)
    folded = {plain_name(name): tensor for name, tensor in state.items() if not name.endswith((_A, _B))}
    for name in [name for name in state if name.endswith(_A)]:
        module = name.removesuffix(_A)
        change = state[module + _B] @ state[name] * (lora.alpha / lora.rank)
        folded[f"{module}.weight"] = folded[f"{module}.weight"] + change
    return folded
