"""Passes: forward and backward over all ranks, sequences out in balanced micro-batches, results back in their order.

With it what an update is measured against: the rewards less the KL penalty, and the logprobs of the step's start.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.algorithm.kl import kl_estimate
from sweyard_trainer.learner.batches import Attempt, as_if_sampled_here, counts, shaped_reward, to_sequence
from sweyard_trainer.learner.distribution import RankedBatch, reduce_figures
from sweyard_trainer.learner.ranks import RankGroup
from sweyard_trainer.learner.sequences import TrainingSequence
from sweyard_trainer.rollouts.seen_tokens import SeenTokens
from sweyard_trainer.trajectory import Trajectory


class Passes:
    """Over the policy that the ranks hold at the moment, and the reference where it is asked for."""

    def __init__(self, spec: TrainingRunSpec, ranks: RankGroup) -> None:
        self._spec = spec
        self._ranks = ranks

    async def supervised_update(self, sequences: list[TrainingSequence], learning_rate: float) -> dict[str, float]:
        """One optimizer step of cross-entropy; its figures. Raises TrainingDivergedError."""
        batch = self._distribute(sequences)
        return self._reduced(batch, await self._update("supervised_update", batch, learning_rate), learning_rate)

    async def policy_update(
        self, sequences: list[TrainingSequence], learning_rate: float
    ) -> tuple[dict[str, float], list[SeenTokens]]:
        """One optimizer step of the policy gradient; its figures, and what it saw of each sequence before.

        Raises TrainingDivergedError.
        """
        batch = self._distribute(sequences)
        figures, results = zip(*await self._update("policy_update", batch, learning_rate), strict=True)
        seen = []
        for sequence, (logprobs, entropies) in zip(sequences, batch.in_order(results), strict=True):
            before = logprobs if sequence.old_logprobs is None else sequence.old_logprobs
            seen.append(SeenTokens(*sequence.origin, before, entropies))
        return self._reduced(batch, figures, learning_rate), seen

    async def rewards(self, groups: Sequence[Sequence[Trajectory]]) -> list[list[float]]:
        """The trajectories' own, less what is taken off for length, and the KL penalty where that is the reward's."""
        most, algorithm = self._spec.rollout.max_response_tokens, self._spec.algorithm
        rewards = [[shaped_reward(trajectory, algorithm, most) for trajectory in group] for group in groups]
        kl = algorithm.kl
        if kl.coefficient == 0 or kl.placement != "reward":
            return rewards
        places = [
            (g, i, segment)
            for g, group in enumerate(groups)
            for i, t in enumerate(group)
            if counts(t, algorithm)
            for segment in t.segments
            if segment.loss_mask[1:].any()
        ]
        sequences = [to_sequence(segment, groups[g][i].temperature) for g, i, segment in places]
        policy, reference = await self._logprobs(sequences), await self._logprobs(sequences, of_reference=True)
        for (g, i, _), own, other in zip(places, policy, reference, strict=True):
            rewards[g][i] -= kl.coefficient * float(
                kl_estimate(torch.from_numpy(own), torch.from_numpy(other), kl.estimator).sum()
            )
        return rewards

    async def with_logprobs(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """With the logprobs that later updates of this batch, or the KL term, are measured against."""
        algorithm, retokenized = self._spec.algorithm, self._spec.inference.retokenize_replies
        sequences = [sequence for attempt in attempts for sequence in attempt.sequences]
        if retokenized or algorithm.epochs_per_batch * algorithm.minibatches > 1:
            old = await self._logprobs(sequences)
            sequences = [replace(sequence, old_logprobs=own) for sequence, own in zip(sequences, old, strict=True)]
        if retokenized:
            sequences = [as_if_sampled_here(sequence) for sequence in sequences]
        if algorithm.kl.coefficient > 0:
            reference = await self._logprobs(sequences, of_reference=True)
            pairs = zip(sequences, reference, strict=True)
            sequences = [replace(sequence, reference_logprobs=own) for sequence, own in pairs]
        stream = iter(sequences)
        return [replace(attempt, sequences=tuple(next(stream) for _ in attempt.sequences)) for attempt in attempts]

    async def _logprobs(self, sequences: list[TrainingSequence], of_reference: bool = False) -> list[Any]:
        batch = self._distribute(sequences)
        return batch.in_order(await self._ranks.call("logprobs", [(own, of_reference) for own in batch.per_rank]))

    def _distribute(self, sequences: list[TrainingSequence]) -> RankedBatch:
        trainer = self._spec.trainer
        return RankedBatch.of(sequences, self._ranks.size, trainer.tokens_per_microbatch, trainer.sequence_parallel)

    async def _update(self, method: str, batch: RankedBatch, learning_rate: float) -> list[Any]:
        return await self._ranks.call(method, [(own, learning_rate) for own in batch.per_rank])

    def _reduced(self, batch: RankedBatch, figures: Sequence[Any], learning_rate: float) -> dict[str, float]:
        return reduce_figures(batch.distinct(figures)) | {"learning_rate": learning_rate}
