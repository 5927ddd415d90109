"""Ulysses sequence parallelism (arXiv 2309.14509): ranks of a group share the tokens of one packed batch.

Everything but attention works on a rank's own tokens. For attention the group trades: each rank gets all tokens of
some heads, and afterwards all heads of its tokens. All ranks of a group must call alike.
"""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch import Tensor
from torch.distributed import ProcessGroup


def share_of_tokens(num_tokens: int, group: ProcessGroup) -> tuple[int, slice]:
    """(length that all shares have, this rank's tokens); the last shares may reach beyond the tokens there are."""
    share = -(-num_tokens // group.size())
    return share, slice(group.rank() * share, (group.rank() + 1) * share)


def spread_heads(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """[1, heads, share, D] to [1, heads / size, size * share, D]; fewer heads than ranks are repeated first."""
    size = group.size()
    if tensor.shape[1] < size:
        tensor = tensor.repeat_interleave(size // tensor.shape[1], dim=1)
    _, heads, share, width = tensor.shape
    sent = tensor[0].reshape(size, heads // size, share, width)
    received = _trade(sent, group)
    return received.transpose(0, 1).reshape(1, heads // size, size * share, width)


def spread_tokens(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """[1, size * share, heads / size, D] to [1, share, heads, D], the way back."""
    size = group.size()
    _, tokens, heads, width = tensor.shape
    sent = tensor[0].reshape(size, tokens // size, heads, width)
    received = _trade(sent, group)
    return received.transpose(0, 1).reshape(1, tokens // size, size * heads, width)


def sum_over(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """Sum over the group; gradients are summed likewise."""
    summed = differentiable.all_reduce(tensor, group=group)  # type: ignore[no-untyped-call]
    assert isinstance(summed, Tensor)
    return summed


def _trade(blocks: Tensor, group: ProcessGroup) -> Tensor:
    """[size, ...]: block r goes to rank r, and a block comes from each."""
    blocks = blocks.contiguous()
    traded = differentiable.all_to_all_single(  # type: ignore[no-untyped-call]
        torch.empty_like(blocks), blocks, group=group
    )
    assert isinstance(traded, Tensor)
    return traded


def make_sequence_group(degree: int) -> ProcessGroup | None:
    """The group of `degree` neighbouring ranks that this rank is in; None for a degree of 1. A collective call."""
    if degree == 1:
        return None
    group, _ = dist.new_subgroups(degree)  # type: ignore[no-untyped-call]
    assert isinstance(group, ProcessGroup)
    return group
