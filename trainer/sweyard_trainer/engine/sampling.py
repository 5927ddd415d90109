"""Sampling inside transformers' generate: seeds per request, and the logprobs of what was sampled.

Gumbel noise added to the log-probabilities makes an argmax an exact sample (Maddison et al. 2014, arXiv 1411.0030),
so each row of a batch can have a generator of its own, and a request's tokens do not depend on its neighbours.
"""

import torch
from transformers import LogitsProcessor


class SeededSampler(LogitsProcessor):  # type: ignore[misc]
    """Turns greedy decoding into seeded sampling, row by row. B rows, V vocabulary."""

    def __init__(self, temperatures: list[float], seeds: list[int]) -> None:
        self._temperatures = torch.tensor([[value or 1.0] for value in temperatures])
        self._greedy = torch.tensor([[value == 0] for value in temperatures])
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.logprobs: list[torch.Tensor] = []
        """One [B] tensor a decoding step: the logprob of the token chosen in each row."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        logprobs = torch.log_softmax(scores.float() / self._temperatures, dim=-1)
        exponentials = torch.stack(
            [torch.empty(scores.shape[-1]).exponential_(generator=generator) for generator in self._generators]
        )
        noisy = torch.where(self._greedy, logprobs, logprobs - exponentials.log())
        chosen = noisy.argmax(dim=-1, keepdim=True)
        self.logprobs.append(logprobs.gather(-1, chosen).squeeze(-1))
        return noisy
