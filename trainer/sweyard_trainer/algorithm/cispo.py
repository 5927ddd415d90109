"""CISPO (MiniMax-M1, arXiv 2506.13585, equation 4): the importance weight is clipped, never the token's gradient.

Only the upper bound is used, as in the paper's own runs.
"""

from torch import Tensor

from sweyard_trainer.algorithm.policy_loss import PolicyLoss


def cispo_loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_high: float) -> PolicyLoss:
    """-min(ratio, 1 + clip_high) * A * logprob for each token [T], the weight a constant for the gradient."""
    ratio = (logprobs - old_logprobs).detach().exp()  # an overflow is clipped like the rest
    return PolicyLoss(-ratio.clamp(max=1 + clip_high) * advantages * logprobs, ratio > 1 + clip_high)
