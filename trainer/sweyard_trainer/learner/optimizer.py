"""AdamW (Loshchilov and Hutter, https://arxiv.org/abs/1711.05101) over a sharded policy, with a bound on gradients."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from sweyard_api.algorithm import Optimizer
from sweyard_trainer.errors import TrainingDivergedError


def make_optimizer(parameters: Iterable[nn.Parameter], settings: Optimizer) -> AdamW:
    """Over those that are trained; matrices decay, biases and norms do not."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim >= 2]
    others = [parameter for parameter in trained if parameter.ndim < 2]
    return AdamW(
        [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}],
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )


def clipped_step(optimizer: AdamW, policy: nn.Module, learning_rate: float, *, max_grad_norm: float) -> float:
    """One step, after which there are no gradients; their norm before it was bounded. A collective call.

    Raises TrainingDivergedError for a norm that is not finite, without a step.
    """
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), max_grad_norm)
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    if not torch.isfinite(norm):
        optimizer.zero_grad()
        raise TrainingDivergedError(f"the gradient's norm is {norm.item()}; lower optimizer.learningRate")
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    optimizer.zero_grad()
    return norm.item()
