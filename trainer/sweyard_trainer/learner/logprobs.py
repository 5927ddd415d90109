"""Log-probabilities of chosen tokens, in chunks: the logits of a whole long batch never exist at once.

A head of its own rather than autograd's: it holds two buffers of one chunk and, between forward and backward, one
number a token, so that its memory depends on neither the length of the batch nor the number of operations.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LOGITS_PER_CHUNK = 32 * 1024 * 1024
"""Elements of float32 logits held at a time (128 MiB, twice), forward and backward."""


def chunked_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperatures: Tensor,
    *,
    entropy_gradient: bool,
    logits_per_chunk: int = LOGITS_PER_CHUNK,
) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and entropy of its distribution, both [N] in float32, at its temperature.

    `hidden` [N, H] are the final states, `weight` [V, H] is the output layer. Logits are computed again in the backward
    pass unless they are one chunk. Entropies carry a gradient only if asked.
    """
    rows = max(1, logits_per_chunk // weight.shape[0])
    chosen, entropies = _ChunkedHead.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, temperatures, rows, entropy_gradient
    )
    return chosen, entropies


class _ChunkedHead(Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        temperatures: Tensor,
        rows: int,
        entropy_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        chosen, entropies = (torch.empty(len(targets), dtype=torch.float32, device=hidden.device) for _ in range(2))
        normalizers = torch.empty_like(chosen)
        all_logprobs = None
        for part in _parts(len(targets), rows):
            scaled = _scaled_logits(hidden[part], weight, temperatures[part])
            all_logprobs = torch.log_softmax(scaled, dim=-1)
            at_targets = targets[part, None]
            chosen[part] = all_logprobs.gather(1, at_targets)[:, 0]
            normalizers[part] = (scaled.gather(1, at_targets) - chosen[part, None])[:, 0]
            entropies[part] = torch.exp(all_logprobs, out=scaled).mul_(all_logprobs).sum(-1).neg_()
            del scaled
        ctx.save_for_backward(hidden, weight, targets, temperatures, normalizers, entropies.clone())
        ctx.rows = rows
        ctx.all_logprobs = all_logprobs if 0 < len(targets) <= rows and any(ctx.needs_input_grad[:2]) else None
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropies)
        ctx.entropy_gradient = entropy_gradient
        return chosen, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, temperatures, normalizers, entropies = ctx.saved_tensors
        kept, ctx.all_logprobs = ctx.all_logprobs, None
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for part in _parts(len(targets), ctx.rows):
            logprobs = kept
            if logprobs is None:
                logprobs = _scaled_logits(hidden[part], weight, temperatures[part]).sub_(normalizers[part, None])
            slope = _slope(logprobs, targets[part], gradients[0][part])
            if ctx.entropy_gradient:
                slope.sub_(logprobs.exp() * (logprobs + entropies[part, None]) * gradients[1][part, None])
            slope = slope.div_(temperatures[part, None]).to(hidden.dtype)
            torch.mm(slope, weight, out=hidden_gradient[part])
            if weight_gradient is not None:
                _add_product(weight_gradient, slope, hidden[part])
        whole = None if weight_gradient is None else weight_gradient.to(weight.dtype)
        return hidden_gradient, whole, None, None, None, None


def _parts(count: int, rows: int) -> list[slice]:
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


def _scaled_logits(hidden: Tensor, weight: Tensor, temperatures: Tensor) -> Tensor:
    return (hidden @ weight.T).float().div_(temperatures[:, None])


def _slope(logprobs: Tensor, targets: Tensor, gradients: Tensor) -> Tensor:
    """Of the chosen log-probabilities by the scaled logits: gradient * (one at the target - probability)."""
    slope = logprobs.exp().mul_(-gradients[:, None])
    return slope.scatter_add_(1, targets[:, None], gradients[:, None])


def _add_product(total: Tensor, slope: Tensor, hidden: Tensor) -> None:
    """total += slope.T @ hidden; summed in float32 however many chunks there are."""
    if hidden.dtype == torch.float32:
        total.addmm_(slope.T, hidden)
    else:
        total.add_(slope.T @ hidden)
