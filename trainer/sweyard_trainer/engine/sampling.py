"""Seeded sampling: a seed per request, and the logprobs of what was sampled.

Gumbel noise added to the log-probabilities makes an argmax an exact sample (Maddison et al. 2014, arXiv 1411.0030),
so each row of a batch can have a generator of its own, and a request's tokens do not depend on its neighbours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class SeededSampler:
    """Draws one token a row. B rows, V vocabulary."""

    def __init__(self, temperatures: Sequence[float], seeds: Sequence[int]) -> None:
        self._temperatures = torch.tensor([[value or 1.0] for value in temperatures])
        self._greedy = torch.tensor([[value == 0] for value in temperatures])
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens [B] and their logprobs [B] at each row's temperature, of logits [B, V]."""
        logprobs = torch.log_softmax(logits.float() / self._temperatures, dim=-1)
        exponentials = torch.stack(
            [torch.empty(logits.shape[-1]).exponential_(generator=generator) for generator in self._generators]
        )
        chosen = torch.where(self._greedy, logprobs, logprobs - exponentials.log()).argmax(dim=-1)
        return chosen, logprobs.gather(-1, chosen[:, None])[:, 0]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone."""
        self._temperatures, self._greedy = self._temperatures[rows], self._greedy[rows]
        self._generators = [self._generators[row] for row in rows]
