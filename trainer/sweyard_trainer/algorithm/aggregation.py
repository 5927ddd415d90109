"""How token losses become one number, as the weight of each token.

With weights fixed for the whole batch beforehand, the loss is a plain sum, which no way of splitting the batch over
micro-batches, ranks or accumulation steps can change.

token_mean: DAPO (arXiv 2503.14476); sequence_mean_token_mean: GRPO; sequence_mean_token_sum: DeepSWE's recipe;
constant: Dr. GRPO (arXiv 2503.20783), which divides by a fixed length instead of the sequence's own.
"""

import torch
from torch import Tensor


def token_weights(num_tokens: Tensor, mode: str, constant: int) -> Tensor:
    """Weight of every token of each sequence, [N] from the numbers of trained tokens [N].

    Sequences with no trained token (masked outcomes) are in no denominator; their weight is 0.
    """
    trained = num_tokens > 0
    counts = num_tokens.double()
    num_sequences = trained.sum()
    match mode:
        case "token_mean":
            weights = torch.ones_like(counts) / num_tokens.sum()
        case "sequence_mean_token_mean":
            weights = 1 / (counts * num_sequences)
        case "sequence_mean_token_sum":
            weights = torch.ones_like(counts) / num_sequences
        case "constant":
            weights = torch.ones_like(counts) / (num_sequences * constant)
        case _:
            raise ValueError(f"unknown loss aggregation {mode!r}")
    return torch.where(trained, weights, 0.0).float()
