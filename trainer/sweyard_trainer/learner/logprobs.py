"""Log-probabilities of chosen tokens, in chunks: the logits of a whole long batch never exist at once."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LOGITS_PER_CHUNK = 64 * 1024 * 1024
"""Elements of float32 logits held at a time (256 MiB), forward and backward."""


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

    `hidden` [N, H] are the final states, `weight` [V, H] is the output layer. More than one chunk is recomputed in the
    backward pass instead of stored. Entropies carry a gradient only if asked, since that costs memory.
    """
    rows = max(1, logits_per_chunk // weight.shape[0])
    if len(targets) <= rows:
        return _logprobs(hidden, weight, targets, temperatures, entropy_gradient)
    chunks = [
        checkpoint(
            _logprobs,
            hidden[start : start + rows],
            weight,
            targets[start : start + rows],
            temperatures[start : start + rows],
            entropy_gradient,
            use_reentrant=False,
        )
        for start in range(0, len(targets), rows)
    ]
    return torch.cat([chunk[0] for chunk in chunks]), torch.cat([chunk[1] for chunk in chunks])


def _logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperatures: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    logits = (hidden @ weight.T).float() / temperatures[:, None]
    all_logprobs = torch.log_softmax(logits, dim=-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropy = -(all_logprobs.exp() * all_logprobs).sum(-1)
    return -F.nll_loss(all_logprobs, targets, reduction="none"), entropy
