"""Importance correction between the policy that sampled and the policy at the start of the step.

Engine and trainer never compute quite the same logprobs, and stale attempts come from older weights; one ratio covers
both, and clipping then bounds only the movement within the step (decoupled objective, arXiv 2110.00641).
Levels: each token's ratio, the product over a sequence (unbiased, of high variance), or its geometric mean.
truncate: min(ratio, cap), TIS (fengyao.notion.site/off-policy-rl). mask: ratios outside [floor, cap] count as 0; per
token that is IcePop (arXiv 2510.18855), per sequence MIS, by the geometric mean the rejection that SkyRL and verl have.
"""

import torch
from torch import Tensor

from sweyard_trainer.algorithm.ratios import sequence_mean, sequence_sum


def correction_weights(
    old_logprobs: Tensor,
    engine_logprobs: Tensor,
    sequence_ids: Tensor,
    num_sequences: int,
    *,
    level: str,
    mode: str,
    cap: float,
    floor: float,
) -> Tensor:
    """The factor of each token's loss [T]; constants for the gradient. `floor` is for masking alone."""
    log_ratio = (old_logprobs - engine_logprobs).detach()
    match level:
        case "none":
            return torch.ones_like(log_ratio)
        case "token":
            pass
        case "sequence":
            log_ratio = sequence_sum(log_ratio, sequence_ids, num_sequences)
        case "geometric":
            log_ratio = sequence_mean(log_ratio, sequence_ids, num_sequences)
        case _:
            raise ValueError(f"unknown level of importance correction {level!r}")
    ratio = log_ratio.exp()  # an overflow is beyond every cap
    match mode:
        case "truncate":
            return ratio.clamp(max=cap)
        case "mask":
            return torch.where((ratio >= floor) & (ratio <= cap), ratio, 0.0)
        case _:
            raise ValueError(f"unknown mode of importance correction {mode!r}")
