"""Sequences out to ranks and micro-batches, results back in the order of the sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sweyard_trainer.learner.microbatches import plan_microbatches
from sweyard_trainer.learner.objective import Figures
from sweyard_trainer.learner.sequences import TrainingSequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RankedBatch:
    """Where each sequence went."""

    plan: list[list[list[int]]]
    """Indices as [group of ranks][micro-batch][...]."""
    sequences: Sequence[TrainingSequence]
    sequence_parallel: int
    """So many neighbouring ranks get the same sequences, and the same results come back from them."""

    @classmethod
    def of(
        cls,
        sequences: Sequence[TrainingSequence],
        num_ranks: int,
        tokens_per_microbatch: int,
        sequence_parallel: int = 1,
    ) -> "RankedBatch":
        """`tokens_per_microbatch` is what one rank holds."""
        lengths = [sequence.num_tokens for sequence in sequences]
        budget = tokens_per_microbatch * sequence_parallel
        return cls(plan_microbatches(lengths, num_ranks // sequence_parallel, budget), sequences, sequence_parallel)

    @property
    def per_rank(self) -> list[list[list[TrainingSequence]]]:
        """What each rank is sent."""
        return [
            [[self.sequences[index] for index in members] for members in group]
            for group in self.plan
            for _ in range(self.sequence_parallel)
        ]

    def distinct(self, results: Sequence[T]) -> Sequence[T]:
        """One of each rank's results that are alike."""
        return results[:: self.sequence_parallel]

    def in_order(self, results: Sequence[Sequence[Sequence[Any]]]) -> list[Any]:
        """Results shaped as the plan, back in the order of the sequences."""
        ordered: list[Any] = [None] * len(self.sequences)
        for rank, rank_results in zip(self.plan, self.distinct(results), strict=True):
            for members, values in zip(rank, rank_results, strict=True):
                for index, value in zip(members, values, strict=True):
                    ordered[index] = value
        return ordered


def reduce_figures(per_rank: Sequence[Figures]) -> dict[str, float]:
    """One set of figures: the loss and counts are sums, the rest means over the tokens looked at, or maxima."""
    total = Figures()
    for figures in per_rank:
        total.add(figures)
    tokens = total.sums.pop("figure_tokens", 0.0)
    loss = total.sums.pop("loss", 0.0)
    fresh, fresh_kl = total.sums.pop("fresh_tokens", 0.0), total.sums.pop("fresh_engine_kl", 0.0)
    means = {name: value / tokens for name, value in total.sums.items()} if tokens else {}
    if tokens:
        means |= {"fresh_tokens": fresh} | ({"fresh_engine_kl": fresh_kl / fresh} if fresh else {})
    return {"loss": loss, **means, **total.maxima}
