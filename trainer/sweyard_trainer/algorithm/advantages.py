"""Advantage estimators over a batch of groups. Rewards of infrastructure outcomes must not be passed in.

grpo: (r - mean) / std of the group (arXiv 2402.03300); without std as Dr. GRPO (arXiv 2503.20783) and DeepSWE.
rloo: r - mean of the others (arXiv 2402.14740). gspo (arXiv 2507.18071) and cispo (arXiv 2506.13585) differ from grpo
in the loss alone. reinforce_plus_plus: (r - mean) / std over the whole batch, no group baseline (arXiv 2501.03262);
reinforce_plus_plus_baseline: first less the group's mean, then divided by the whole batch's std (same paper).
Standard deviations are the sample's, with n - 1.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sweyard_trainer.algorithm.learning_signal import has_signal

EPSILON = 1e-6


def compute_advantages(groups: Sequence[Tensor], estimator: str, normalize_by_std: bool) -> list[Tensor]:
    """One advantage per reward; `groups` holds the rewards [G_i] of each group.

    `normalize_by_std` is for grpo, gspo and cispo. What has no signal (also a group of one) gets zeros, never a spike
    from a tiny deviation.
    """
    match estimator:
        case "reinforce_plus_plus":
            return _batch_normalized(groups)
        case "reinforce_plus_plus_baseline":
            return _batch_normalized([_centred(rewards) for rewards in groups])
        case "rloo":
            return [_centred(rewards) * len(rewards) / max(1, len(rewards) - 1) for rewards in groups]
        case "dr_grpo":
            return [_centred(rewards) for rewards in groups]
        case "grpo" | "gspo" | "cispo":
            return [_centred(rewards) / (_spread(rewards) if normalize_by_std else 1.0) for rewards in groups]
        case _:
            raise ValueError(f"unknown estimator {estimator!r}")


def _centred(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean() if has_signal(rewards.tolist()) else torch.zeros_like(rewards)


def _spread(rewards: Tensor) -> Tensor | float:
    return rewards.std() + EPSILON if has_signal(rewards.tolist()) else 1.0


def _batch_normalized(groups: Sequence[Tensor]) -> list[Tensor]:
    rewards = torch.cat(list(groups))
    return list(torch.split(_centred(rewards) / _spread(rewards), [len(group) for group in groups]))
