"""Frozen weights in four bits each: blocks of a row share a scale, and a code picks one of sixteen values.

`int4` spaces the values evenly; `nf4` at the quantiles of a normal distribution (QLoRA, arXiv 2305.14314, appendix E).
Weights become whole only inside a product, forward and again backward, so that none outlives it.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sweyard_trainer.errors import UnsupportedError

BLOCK = 64
"""Weights that share a scale, as in QLoRA."""
CODES, SCALES = ".codes", ".scales"
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_STEPS = 7
"""Of `int4`, from zero to what the scale says."""
CODEBOOKS = {"int4": tuple(step / _STEPS for step in range(-8, 8)), "nf4": _NF4}


def quantize(weight: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """[out, in] to codes, uint8 [out, in / 2] with two in a byte, and scales, float32 [out, in / BLOCK].

    Raises ValueError if BLOCK does not divide `in`.
    """
    rows, columns = weight.shape
    if columns % BLOCK:
        raise ValueError(f"a weight of {columns} columns cannot be quantised in blocks of {BLOCK}")
    blocks = weight.float().reshape(rows, -1, BLOCK)
    scales = blocks.abs().amax(-1)
    if kind == "int4":
        scales = step_sizes(scales).float() * _STEPS
    codebook = torch.tensor(CODEBOOKS[kind], device=weight.device)
    borders = (codebook[1:] + codebook[:-1]) / 2
    codes = torch.bucketize(blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)[..., None], borders)
    low, high = codes.to(torch.uint8).reshape(rows, -1, 2).unbind(-1)
    return low | high << 4, scales


def step_sizes(scales: Tensor) -> Tensor:
    """Of `int4`, as files and engines have them: in bfloat16, to which the scales are rounded beforehand."""
    return (scales / _STEPS).bfloat16()


def dequantize(codes: Tensor, scales: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    """The weight [out, in] that codes and scales stand for."""
    codebook = torch.tensor(CODEBOOKS[kind], device=codes.device)
    pairs = torch.stack([codes & 15, codes >> 4], dim=-1)
    values = codebook[pairs.int()].reshape(*scales.shape, BLOCK)
    return (values * scales[..., None]).flatten(1).to(dtype)


class FourBitLinear(nn.Module):
    """A frozen linear layer. Its codes and scales begin on the meta device, to be loaded."""

    def __init__(self, layer: nn.Linear, kind: str) -> None:
        super().__init__()
        self.in_features, self.out_features, self._kind = layer.in_features, layer.out_features, kind
        shapes = (self.out_features, self.in_features // 2), (self.out_features, self.in_features // BLOCK)
        self.register_buffer("codes", torch.empty(shapes[0], dtype=torch.uint8, device="meta"))
        self.register_buffer("scales", torch.empty(shapes[1], dtype=torch.float32, device="meta"))
        self.bias = layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = _Product.apply(inputs, self.codes, self.scales, self._kind)  # type: ignore[no-untyped-call]
        return output if self.bias is None else output + self.bias


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, codes: Tensor, scales: Tensor, kind: str) -> Tensor:
        ctx.save_for_backward(codes, scales)
        ctx.kind = kind
        return F.linear(inputs, dequantize(codes, scales, kind, inputs.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        codes, scales = ctx.saved_tensors
        return gradient @ dequantize(codes, scales, ctx.kind, gradient.dtype), None, None, None


def hold_in_four_bits(model: nn.Module, kind: str) -> None:
    """Replace the frozen layer under each adapter. Raises UnsupportedError for a width that no blocks fit."""
    from peft.tuners.lora import LoraLayer

    for name, module in model.named_modules():
        if isinstance(module, LoraLayer) and isinstance(module.base_layer, nn.Linear):
            if module.base_layer.in_features % BLOCK:
                raise UnsupportedError(
                    f"trainer.lora.base is {kind}, but the model's {name} has {module.base_layer.in_features} inputs, "
                    f"which blocks of {BLOCK} do not fit: set it to full"
                )
            module.base_layer = FourBitLinear(module.base_layer, kind)


def whole_weights(state: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """A state in which codes and scales have become `weight` again."""
    kept = {name: tensor for name, tensor in state.items() if not name.endswith((CODES, SCALES))}
    for name in [name for name in state if name.endswith(CODES)]:
        layer = name.removesuffix(CODES)
        kept[f"{layer}.weight"] = dequantize(state[name], state[layer + SCALES], kind, torch.float32)
    return kept
