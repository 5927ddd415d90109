"""Which sequence goes to which rank and micro-batch. Pure; the loss does not depend on it, only time and memory do.

Invariants: every sequence appears exactly once; every rank gets the same number of micro-batches (collectives must
match), some of which may be empty; none exceeds the budget unless it holds a single longer sequence.
"""

import math
from collections.abc import Sequence


def plan_microbatches(lengths: Sequence[int], num_ranks: int, tokens_per_microbatch: int) -> list[list[list[int]]]:
    """Indices of sequences, as [rank][micro-batch][...].

    Longest first into the lightest of as few bins as the budget allows, then the bins are dealt to ranks by weight.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    tokens = sum(min(length, tokens_per_microbatch) for length in lengths)
    num_bins = _round_up(max(1, math.ceil(tokens / tokens_per_microbatch)), num_ranks)
    while (bins := _fill(order, lengths, num_bins, tokens_per_microbatch)) is None:
        num_bins += num_ranks
    bins.sort(key=lambda members: -sum(lengths[index] for index in members))
    return [bins[rank::num_ranks] for rank in range(num_ranks)]


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _fill(order: Sequence[int], lengths: Sequence[int], num_bins: int, budget: int) -> list[list[int]] | None:
    """Each sequence into the lightest bin; None if one overflows that need not."""
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    weights = [0] * num_bins
    for index in order:
        lightest = weights.index(min(weights))
        if bins[lightest] and weights[lightest] + lengths[index] > budget:
            return None
        bins[lightest].append(index)
        weights[lightest] += lengths[index]
    return bins
