"""Truncated importance sampling between the policy that sampled and the policy at the start of the step.

Engine and trainer never compute quite the same logprobs, and stale attempts come from older weights
(fengyao.notion.site/off-policy-rl; decoupled objective of arXiv 2110.00641).
"""

import torch
from torch import Tensor

from sweyard_trainer.algorithm.ratios import sequence_sum


def correction_weights(
    old_logprobs: Tensor, engine_logprobs: Tensor, sequence_ids: Tensor, num_sequences: int, level: str, cap: float
) -> Tensor:
    """min(ratio, cap) for each token [T]; constants for the gradient."""
    log_ratio = (old_logprobs - engine_logprobs).detach()
    match level:
        case "none":
            return torch.ones_like(log_ratio)
        case "token":
            return log_ratio.exp().clamp(max=cap)
        case "sequence":
            return sequence_sum(log_ratio, sequence_ids, num_sequences).exp().clamp(max=cap)
        case _:
            raise ValueError(f"unknown level of importance correction {level!r}")
