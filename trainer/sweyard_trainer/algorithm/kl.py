"""Estimators of KL(policy || reference) from tokens that the policy sampled (joschu.net/blog/kl-approx.html).

In the reward (`placement: reward`) the estimate is a constant; k1, summed over an attempt, is the unbiased choice.
In the loss its gradient matters, and that is not the KL's own (arXiv 2510.01555): k1's has mean zero and only adds
noise; k2's is exactly the gradient of KL(policy || reference); k3's, GRPO's choice, is that of the forward
KL(reference || policy) at the sampled tokens, close to k2's only while the policies are close, and its value has no
bound where the policy has become unlikely. Only tokens of the present policy make any of this true: no importance
ratio corrects the penalty of stale ones.
"""

from torch import Tensor

from sweyard_trainer.algorithm.ratios import MAX_LOG_RATIO


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, estimator: str) -> Tensor:
    """Per-token estimate [T]. k1 is unbiased, k2 has low variance, k3 is unbiased and never negative."""
    log_ratio = logprobs - reference_logprobs
    match estimator:
        case "k1":
            return log_ratio
        case "k2":
            return log_ratio.square() / 2
        case "k3":
            return (-log_ratio).clamp(max=MAX_LOG_RATIO).exp() - 1 + log_ratio
        case _:
            raise ValueError(f"unknown KL estimator {estimator!r}")
