"""Advantage estimators over a batch of groups. Rewards of infrastructure outcomes must not be passed in.

grpo: (r - mean) / std of the group (arXiv 2402.03300); without std as Dr. GRPO (arXiv 2503.20783) and DeepSWE.
rloo: r - mean of the others (arXiv 2402.14740). gspo uses the advantages of grpo (arXiv 2507.18071).
reinforce_plus_plus: (r - mean) / std over the whole batch, no group baseline (arXiv 2501.03262).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sweyard_trainer.algorithm.learning_signal import has_signal

EPSILON = 1e-6


def compute_advantages(groups: Sequence[Tensor], estimator: str, normalize_by_std: bool) -> list[Tensor]:
    """One advantage per reward; `groups` holds the rewards [G_i] of each group. `normalize_by_std` is for grpo, gspo.

    A group without signal (also a group of one) gets zeros, never a spike from a tiny deviation.
    """
    if estimator == "reinforce_plus_plus":
        return _batch_normalized(groups)
    return [_group_advantages(rewards, estimator, normalize_by_std) for rewards in groups]


def _group_advantages(rewards: Tensor, estimator: str, normalize_by_std: bool) -> Tensor:
    if not has_signal(rewards.tolist()):
        return torch.zeros_like(rewards)
    centred = rewards - rewards.mean()
    match estimator:
        case "rloo":
            return centred * len(rewards) / (len(rewards) - 1)
        case "dr_grpo":
            return centred
        case "grpo" | "gspo":
            return centred / (rewards.std() + EPSILON) if normalize_by_std else centred
        case _:
            raise ValueError(f"unknown estimator {estimator!r}")


def _batch_normalized(groups: Sequence[Tensor]) -> list[Tensor]:
    rewards = torch.cat(list(groups))
    if not has_signal(rewards.tolist()):
        return [torch.zeros_like(group) for group in groups]
    normalized = (rewards - rewards.mean()) / (rewards.std() + EPSILON)
    return list(torch.split(normalized, [len(group) for group in groups]))
