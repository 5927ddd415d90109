"""Causal attention within each packed sequence, as an attention function of transformers.

On GPUs one variable-length kernel does all sequences; elsewhere each sequence gets its own call, which on CPUs was
measured to be a fifth to a third faster than padding them to one length and needs no mask that grows with the square
of the batch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface

from sweyard_trainer.learner.sequence_parallel import spread_heads, spread_tokens

NAME = "sweyard_packed"


def register_packed_attention() -> None:
    """Make NAME a value of `attn_implementation`; callable any number of times."""
    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, _no_mask)


class Packing:
    """How sequences lie in a micro-batch; opaque, since compiled layers would be compiled anew for each number of
    them if they could look into it, as into a tuple or a dataclass."""

    def __init__(self, lengths: tuple[int, ...], sequence_group: ProcessGroup | None = None) -> None:
        """`lengths` of the sequences, one after another; ranks of `sequence_group` share their tokens."""
        self.lengths = lengths
        self.sequence_group = sequence_group


# Not compiled: each batch has other lengths, and each would be compiled anew.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """[1, heads, T, D] each, to [1, T, heads, D].

    With a `sequence_group` T is this rank's share of the packed tokens; see sequence_parallel.
    """
    lengths, sequence_group = packing.lengths, packing.sequence_group
    if sliding_window is not None and max(lengths) > sliding_window:
        raise ValueError(f"sequences of {max(lengths)} tokens exceed the model's sliding window of {sliding_window}")
    if sequence_group is not None:
        query, key, value = (spread_heads(tensor, sequence_group) for tensor in (query, key, value))
    by_kernel = query.is_cuda and query.dtype in (torch.bfloat16, torch.float16)
    output = (_by_kernel if by_kernel else _by_sequence)(query, key, value, lengths, scaling)
    return (output if sequence_group is None else spread_tokens(output, sequence_group)), None


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, lengths: tuple[int, ...], scaling: float | None) -> Tensor:
    ends = torch.tensor([0, *lengths], device=query.device).cumsum(0).to(torch.int32)
    packed_query, packed_key, packed_value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    output = varlen_attn(
        packed_query,
        packed_key,
        packed_value,
        ends,
        ends,
        max(lengths),
        max(lengths),
        scale=scaling,
        window_size=(-1, 0),
        enable_gqa=True,
    )
    assert isinstance(output, Tensor)
    return output[None]


def _by_sequence(query: Tensor, key: Tensor, value: Tensor, lengths: tuple[int, ...], scaling: float | None) -> Tensor:
    sizes = list(lengths)
    parts = zip(*(torch.split(tensor, sizes, dim=2) for tensor in (query, key, value)), strict=True)
    outputs = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True) for q, k, v in parts
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2)


def _no_mask(*_: Any, **__: Any) -> None:
    """The lengths say all that a mask would."""
