"""The losses of one micro-batch, and the figures that go with them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sweyard_api.algorithm import Algorithm
from sweyard_trainer.algorithm.cispo import cispo_loss
from sweyard_trainer.algorithm.importance import correction_weights
from sweyard_trainer.algorithm.kl import kl_estimate
from sweyard_trainer.algorithm.policy_loss import PolicyLoss, policy_loss
from sweyard_trainer.algorithm.ratios import gspo_log_ratio
from sweyard_trainer.learner.sequences import PackedBatch, TrainingSequence


@dataclass(slots=True)
class Figures:
    """Sums over trained tokens, and maxima; both add up over micro-batches and ranks."""

    sums: dict[str, float] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Figures") -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in other.maxima.items():
            self.maxima[name] = max(self.maxima.get(name, value), value)


def supervised_loss(logprobs: Tensor, batch: PackedBatch, sequences: Sequence[TrainingSequence]) -> Tensor:
    """Weighted negative log-likelihood, a scalar sum."""
    return -(logprobs * _per_token(batch, [sequence.weight for sequence in sequences])).sum()


def policy_gradient_loss(
    algorithm: Algorithm,
    logprobs: Tensor,
    entropies: Tensor,
    batch: PackedBatch,
    sequences: Sequence[TrainingSequence],
) -> tuple[Tensor, Figures]:
    """Weighted sum of the token losses (a scalar), and figures."""
    count = len(sequences)
    engine = _concatenate([sequence.engine_logprobs[sequence.loss_mask] for sequence in sequences], logprobs)
    old = logprobs.detach()
    if all(sequence.old_logprobs is not None for sequence in sequences):
        old = _concatenate([sequence.old_logprobs for sequence in sequences], logprobs)
    advantages = _per_token(batch, [sequence.advantage for sequence in sequences])
    weights = _per_token(batch, [sequence.weight for sequence in sequences])
    surrogate = _surrogate(algorithm, logprobs, old, advantages, batch, count)
    settings = algorithm.importance_correction
    correction = correction_weights(
        old,
        engine,
        batch.sequence_ids,
        count,
        level=settings.level,
        mode=settings.mode,
        cap=settings.cap,
        floor=settings.floor,
    )
    token_losses = correction * surrogate.values - algorithm.entropy_coefficient * entropies
    figures = _figures(old, engine, correction, surrogate.clipped, entropies)
    figures.add(_fresh_figures(old, engine, sequences))
    if all(sequence.reference_logprobs is not None for sequence in sequences):
        reference = _concatenate([sequence.reference_logprobs for sequence in sequences], logprobs)
        kl = kl_estimate(logprobs, reference, algorithm.kl.estimator)
        figures.sums["kl"] = kl.detach().sum().item()
        if algorithm.kl.placement == "loss":
            token_losses = token_losses + algorithm.kl.coefficient * kl
    return (token_losses * weights).sum(), figures


def _surrogate(
    algorithm: Algorithm, logprobs: Tensor, old: Tensor, advantages: Tensor, batch: PackedBatch, count: int
) -> PolicyLoss:
    if algorithm.estimator == "cispo":
        return cispo_loss(logprobs, old, advantages, algorithm.clip_high)
    log_ratio = logprobs - old
    if algorithm.estimator == "gspo":
        log_ratio = gspo_log_ratio(logprobs, old, batch.sequence_ids, count)
    return policy_loss(log_ratio, advantages, algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip)


def _figures(old: Tensor, engine: Tensor, correction: Tensor, clipped: Tensor, entropies: Tensor) -> Figures:
    """`engine_kl` is the k3 estimate of KL(engine || trainer): both should be one policy when nothing is stale."""
    log_ratio = (old - engine).double()
    ratio = log_ratio.exp()
    sums = {
        "entropy": entropies.detach().sum().item(),
        "clip_fraction": clipped.sum().item(),
        "correction_mean": correction.sum().item(),
        "engine_ratio_mean": ratio.sum().item(),
        "engine_kl": (ratio - 1 - log_ratio).sum().item(),
    }
    return Figures(sums, {"engine_logprob_gap_max": log_ratio.abs().max().item() if len(old) else 0.0})


def _fresh_figures(old: Tensor, engine: Tensor, sequences: Sequence[TrainingSequence]) -> Figures:
    """The same of the tokens whose engine had the weights of `old`, whatever the others' age."""
    marks = [
        np.zeros(sequence.num_trained, np.bool_) if sequence.fresh is None else sequence.fresh[sequence.loss_mask]
        for sequence in sequences
    ]
    fresh = torch.from_numpy(np.concatenate(marks))  # an index may lie on the host, wherever the rest does
    log_ratio = (old - engine).double()[fresh]
    return Figures({"fresh_engine_kl": (log_ratio.exp() - 1 - log_ratio).sum().item(), "fresh_tokens": len(log_ratio)})


def _per_token(batch: PackedBatch, values: Sequence[float]) -> Tensor:
    device = batch.sequence_ids.device
    return torch.tensor(values, dtype=torch.float32, device=device)[batch.sequence_ids]


def _concatenate(arrays: Sequence[np.ndarray | None], like: Tensor) -> Tensor:
    present = [array for array in arrays if array is not None]
    return torch.from_numpy(np.concatenate(present)).to(like)
