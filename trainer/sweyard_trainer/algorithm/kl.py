"""Estimators of KL(policy || reference) from sampled tokens (Schulman, joschu.net/blog/kl-approx.html)."""

from torch import Tensor


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, estimator: str) -> Tensor:
    """Per-token estimate [T]. k1 is unbiased, k2 has low variance, k3 is unbiased and never negative."""
    log_ratio = logprobs - reference_logprobs
    match estimator:
        case "k1":
            return log_ratio
        case "k2":
            return log_ratio.square() / 2
        case "k3":
            return (-log_ratio).exp() - 1 + log_ratio
        case _:
            raise ValueError(f"unknown KL estimator {estimator!r}")
