"""From groups of trajectories to training sequences: who counts, with which advantage and weight. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sweyard_api.algorithm import Algorithm
from sweyard_trainer.algorithm.advantages import compute_advantages
from sweyard_trainer.algorithm.aggregation import token_weights
from sweyard_trainer.algorithm.outcomes import Treatment, treatment
from sweyard_trainer.algorithm.overlong import overlong_penalty
from sweyard_trainer.custom import load_estimator
from sweyard_trainer.learner.routing import complete_routing
from sweyard_trainer.learner.sequences import TrainingSequence
from sweyard_trainer.trajectory import Segment, Trajectory


@dataclass(frozen=True, slots=True)
class Attempt:
    """What of a trajectory reaches the loss: its segments share one advantage and one denominator."""

    sequences: tuple[TrainingSequence, ...]
    advantage: float

    @property
    def num_trained(self) -> int:
        return sum(sequence.num_trained for sequence in self.sequences)


def build_attempts(
    groups: Sequence[Sequence[Trajectory]],
    rewards: Sequence[Sequence[float]],
    algorithm: Algorithm,
    version: int | None = None,
) -> list[Attempt]:
    """Attempts that add loss, with advantages from all that count. `rewards` may differ from the trajectories' own;
    `version` is of the weights that are trained."""
    counted = [
        [(trajectory, reward) for trajectory, reward in zip(group, own, strict=True) if counts(trajectory, algorithm)]
        for group, own in zip(groups, rewards, strict=True)
    ]
    counted = [group for group in counted if group]
    if not counted:
        return []
    scores = [torch.tensor([reward for _, reward in group], dtype=torch.float64) for group in counted]
    if (estimate := load_estimator(algorithm)) is not None:
        advantages = estimate(scores)
    else:
        advantages = compute_advantages(scores, algorithm.estimator, algorithm.normalize_by_std)
    return [
        Attempt(tuple(_sequences_of(trajectory, version)), advantage)
        for group, own in zip(counted, advantages, strict=True)
        for (trajectory, _), advantage in zip(group, own.tolist(), strict=True)
        if _treatment(trajectory, algorithm) is Treatment.TRAIN and trajectory.num_sampled_tokens > 0
    ]


def _sequences_of(trajectory: Trajectory, version: int | None) -> Iterator[TrainingSequence]:
    for number, segment in enumerate(trajectory.segments):
        sequence = to_sequence(segment, trajectory.temperature)
        fresh = segment.weight_versions[: sequence.num_tokens] == version
        yield replace(sequence, origin=(trajectory.attempt_id, number), fresh=fresh & sequence.loss_mask)


def counts(trajectory: Trajectory, algorithm: Algorithm) -> bool:
    """True if its reward belongs in a baseline."""
    return _treatment(trajectory, algorithm) is not Treatment.DROP


def _treatment(trajectory: Trajectory, algorithm: Algorithm) -> Treatment:
    return treatment(trajectory.outcome, algorithm.mask_outcomes, algorithm.drop_outcomes)


def shaped_reward(trajectory: Trajectory, algorithm: Algorithm, max_response_tokens: int) -> float:
    """Its own, less what it loses for its length."""
    if algorithm.overlong is None:
        return trajectory.reward
    length = max((num_response_tokens(segment) for segment in trajectory.segments), default=0)
    overlong = algorithm.overlong
    return trajectory.reward - overlong_penalty(length, max_response_tokens, overlong.buffer_tokens, overlong.penalty)


def num_response_tokens(segment: Segment) -> int:
    """All that follows its prompt, observations included, as rollout.maxResponseTokens counts."""
    sampled = np.flatnonzero(segment.loss_mask)
    return len(segment.loss_mask) - int(sampled[0]) if len(sampled) else 0


def weigh(attempts: Sequence[Attempt], algorithm: Algorithm, max_response_tokens: int) -> list[TrainingSequence]:
    """All sequences of one optimizer step, with weights that make the loss a plain sum.

    Sequences that cannot move the weights (no advantage, and no penalty or bonus) are left out after weighing.
    """
    constant = algorithm.loss_constant or max_response_tokens
    counts_of_tokens = torch.tensor([attempt.num_trained for attempt in attempts])
    weights = token_weights(counts_of_tokens, algorithm.loss_aggregation, constant).tolist()
    always = algorithm.entropy_coefficient > 0 or (algorithm.kl.coefficient > 0 and algorithm.kl.placement == "loss")
    return [
        replace(sequence, advantage=attempt.advantage, weight=weight)
        for attempt, weight in zip(attempts, weights, strict=True)
        for sequence in attempt.sequences
        if sequence.num_trained > 0 and (always or attempt.advantage != 0)
    ]


def split_minibatches(attempts: Sequence[Attempt], num_minibatches: int, seed: int) -> list[list[Attempt]]:
    """Shuffled by `seed`, in parts whose sizes differ by at most one; none is empty."""
    order = np.random.default_rng(seed).permutation(len(attempts))
    parts = np.array_split(order, min(num_minibatches, len(attempts)))
    return [[attempts[index] for index in part] for part in parts]


def supervised_sequences(segments: Sequence[Segment]) -> list[TrainingSequence]:
    """Weighted so that the loss is the mean over all trained tokens of the batch."""
    sequences = [to_sequence(segment, temperature=1.0) for segment in segments]
    total = sum(sequence.num_trained for sequence in sequences)
    return [replace(sequence, weight=1 / total) for sequence in sequences if sequence.num_trained > 0]


def to_sequence(segment: Segment, temperature: float) -> TrainingSequence:
    """Cut behind the last trained token: what follows predicts nothing that is trained."""
    mask = segment.loss_mask.copy()
    mask[:1] = False
    trained = np.flatnonzero(mask)
    end = int(trained[-1]) + 1 if len(trained) else min(1, len(mask))
    return TrainingSequence(
        token_ids=segment.token_ids[:end],
        loss_mask=mask[:end],
        engine_logprobs=segment.logprobs[:end],
        temperature=temperature,
        routed_experts=_routing(segment, end),
    )


def as_if_sampled_here(sequence: TrainingSequence) -> TrainingSequence:
    """Where the engine's logprobs are no numbers (inference.retokenizeReplies), the policy's at the step's start."""
    engine = sequence.engine_logprobs.copy()
    sampled = engine[sequence.loss_mask]
    assert sequence.old_logprobs is not None, "computed before"
    engine[sequence.loss_mask] = np.where(np.isnan(sampled), sequence.old_logprobs, sampled)
    return replace(sequence, engine_logprobs=engine)


def _routing(segment: Segment, end: int) -> NDArray[np.unsignedinteger] | None:
    return None if segment.routed_experts is None else complete_routing(segment.routed_experts, end)
