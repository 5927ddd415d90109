"""Probability ratios, per token or per sequence. Sequences lie one after another in a flat tensor of tokens [T]."""

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Far outside any clip; keeps exp from overflowing into inf * 0."""


def sequence_mean(values: Tensor, sequence_ids: Tensor, num_sequences: int) -> Tensor:
    """Mean of `values` [T] within each sequence, given back to each of its tokens [T]."""
    counts = sequence_sum(torch.ones_like(values), sequence_ids, num_sequences)
    return sequence_sum(values, sequence_ids, num_sequences) / counts


def sequence_sum(values: Tensor, sequence_ids: Tensor, num_sequences: int) -> Tensor:
    """Sum of `values` [T] within each sequence, given back to each of its tokens [T]."""
    return values.new_zeros(num_sequences).index_add(0, sequence_ids, values)[sequence_ids]


def gspo_log_ratio(logprobs: Tensor, old_logprobs: Tensor, sequence_ids: Tensor, num_sequences: int) -> Tensor:
    """Length-normalised log ratio of the whole sequence, seen by each token (arXiv 2507.18071, equation 7)."""
    return sequence_mean(logprobs - old_logprobs, sequence_ids, num_sequences)
