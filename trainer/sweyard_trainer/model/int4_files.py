"""A model with its linear layers in four bits, as vLLM reads it: compressed-tensors' format `pack-quantized`.

What `four_bit` holds in memory is what lies in these files: a row's codes eight to an int32, the first lowest, and for
each block the size of one step. So an engine over them samples from the very base that adapters are trained on.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.model.four_bit import BLOCK, quantize, step_sizes
from sweyard_trainer.model.intact import INDEX
from sweyard_trainer.model.load import empty_model
from sweyard_trainer.model.readable import make_readable

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def write_int4(model: Path, directory: Path) -> None:
    """From whole weights in Hugging Face format, a file at a time. Raises UnsupportedError for a mixture of experts, or
    a width that no blocks fit."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    if any(config.get(name) for name in _EXPERTS):
        raise UnsupportedError("inference.weights is int4, but model.name is a mixture of experts: set it to full")
    layers = linear_layers(model)
    places: dict[str, str] = {}
    for path in sorted(model.iterdir()):
        if path.suffix == ".safetensors":
            tensors = dict(_rewritten(path, layers))
            save_file(tensors, directory / path.name, metadata={"format": "pt"})
            places |= dict.fromkeys(tensors, path.name)
        elif path.is_file() and path.name not in (INDEX, COMPLETE):
            shutil.copyfile(path, directory / path.name)
    make_readable(directory)
    (directory / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}), encoding="utf-8")
    (directory / "config.json").write_text(json.dumps(config | {"quantization_config": _scheme()}), encoding="utf-8")


def linear_layers(model: Path) -> frozenset[str]:
    """Names of those that adapters are put on: all but the output layer."""
    network = empty_model(model, "eager")
    return frozenset(
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and module is not network.get_output_embeddings()
    )


def _rewritten(path: Path, layers: frozenset[str]) -> Iterator[tuple[str, Tensor]]:
    with safe_open(path, "pt") as reader:
        for name in reader.keys():  # noqa: SIM118
            tensor, layer = reader.get_tensor(name), name.removesuffix(".weight")
            if layer not in layers or layer == name:
                yield name, tensor
                continue
            try:
                codes, scales = quantize(tensor, "int4")
            except ValueError as error:
                raise UnsupportedError(f"inference.weights is int4, but model.name has {name}: {error}") from error
            yield f"{layer}.weight_packed", codes.view(torch.int32)
            yield f"{layer}.weight_scale", step_sizes(scales)
            yield f"{layer}.weight_shape", torch.tensor(tensor.shape)


def _scheme() -> dict[str, Any]:
    """As compressed-tensors describes it."""
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": BLOCK}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
