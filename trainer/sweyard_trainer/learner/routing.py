"""Replay of the engine's choice of experts in a mixture-of-experts model (arXiv 2510.11370).

Engine and trainer round differently, so now and then they send a token to other experts, and its logprobs then differ
by far more than rounding. Replayed, a token goes through the experts that sampled it; how much each of them counts is
the trainer's own: the router's probabilities of these very experts, through which the router learns.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from sweyard_trainer.errors import UnsupportedError

ALWAYS_NORMALIZED = frozenset({"MixtralTopKRouter"})
NORMALIZED_IF_SET = frozenset({"Qwen2MoeTopKRouter", "Qwen3MoeTopKRouter", "OlmoeTopKRouter"})
"""Routers that take the most probable experts of one softmax, and whose config says if the chosen ones add up to 1."""


class RoutingReplay:
    """Hooks in a model's routers. What `begin` was given holds until it is called again, recomputation included."""

    def __init__(self, model: PreTrainedModel, layers: Sequence[nn.Module]) -> None:
        """Raises UnsupportedError for a model without routers, or with some that choose in another way."""
        self._chosen: Tensor | None = None
        routers = [
            (index, module) for index, layer in enumerate(layers) for module in layer.modules() if _routes(module)
        ]
        if not routers:
            raise UnsupportedError(
                f"trainer.replayRouting is set, but of {type(model).__name__} no choice of experts can be replayed; "
                "unset it"
            )
        for index, router in routers:
            router.register_forward_hook(partial(self._replay, index))

    def begin(self, chosen: Tensor | None) -> None:
        """[T, layers, experts a token] for the next forward passes; None lets the model choose."""
        self._chosen = chosen

    def _replay(self, index: int, router: Any, _: Any, output: tuple[Tensor, Tensor, Tensor]) -> Any:
        if self._chosen is None:
            return output
        logits, scores, _indices = output
        indices = self._chosen[:, index].long()
        probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32).gather(1, indices)
        if type(router).__name__ in ALWAYS_NORMALIZED or getattr(router, "norm_topk_prob", False):
            probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
        return logits, probabilities.to(scores.dtype), indices


def complete_routing(routing: NDArray[np.unsignedinteger], num_tokens: int) -> NDArray[np.unsignedinteger]:
    """Of so many tokens: cut, or the last one added, which the engine never read and which predicts nothing.

    Raises ValueError if more is missing.
    """
    if len(routing) < num_tokens - 1:
        raise ValueError(f"the experts of {len(routing)} tokens are known, of a sequence of {num_tokens}")
    any_experts = np.broadcast_to(np.arange(routing.shape[2], dtype=routing.dtype), (1, *routing.shape[1:]))
    completed: NDArray[np.unsignedinteger] = np.concatenate([routing[:num_tokens], any_experts])[:num_tokens]
    return completed


def _routes(module: nn.Module) -> bool:
    return type(module).__name__ in ALWAYS_NORMALIZED | NORMALIZED_IF_SET
