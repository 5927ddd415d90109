"""The clipped surrogate of PPO (arXiv 1707.06347) with separate bounds (DAPO) and dual clip (arXiv 1912.09729)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sweyard_trainer.algorithm.ratios import MAX_LOG_RATIO


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """Loss of each token [T], and whether a bound cut its gradient [T]."""

    values: Tensor
    clipped: Tensor


def policy_loss(
    log_ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> PolicyLoss:
    """-min(ratio * A, clip(ratio) * A); with `dual_clip` the loss of a negative advantage is at most -dual_clip * A."""
    ratio = log_ratio.clamp(max=MAX_LOG_RATIO).exp()
    unclipped = -ratio * advantages
    bounded = -ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    values = torch.maximum(unclipped, bounded)
    clipped = bounded > unclipped
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        over = (advantages < 0) & (values > ceiling)
        values, clipped = torch.where(over, ceiling, values), clipped | over
    return PolicyLoss(values, clipped)
