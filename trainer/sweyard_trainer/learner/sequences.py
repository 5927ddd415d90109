"""What a rank trains on: flat sequences with everything that the loss needs, and how they lie in one micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TrainingSequence:
    """One segment with its part in the loss. Plain numpy, so that it travels between processes."""

    token_ids: NDArray[np.int32]
    """[T]"""
    loss_mask: NDArray[np.bool_]
    """[T] true for tokens that are trained; never for the first, which nothing predicts."""
    engine_logprobs: NDArray[np.float32]
    """[T] 0 where the mask is false."""
    advantage: float = 1.0
    weight: float = 0.0
    """Of each token in the batch's loss (algorithm.aggregation)."""
    temperature: float = 1.0
    old_logprobs: NDArray[np.float32] | None = None
    """[number of trained tokens] of the policy at the start of the step; None: those of this very forward pass."""
    routed_experts: NDArray[np.unsignedinteger] | None = None
    """[T, layers, experts a token] to replay; None: the model chooses."""
    reference_logprobs: NDArray[np.float32] | None = None
    """[number of trained tokens] of the reference policy."""
    fresh: NDArray[np.bool_] | None = None
    """[T] true for trained tokens that the weights sampled with which the step begins; None: none is known to be."""
    origin: tuple[str, int] = ("", 0)
    """Id of the attempt, and number of the segment in it."""

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_trained(self) -> int:
        return int(self.loss_mask.sum())


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Sequences one after another in one row of T tokens, of which N are trained. No token sees another sequence."""

    token_ids: Tensor
    """[1, T]"""
    position_ids: Tensor
    """[1, T] from 0 in each sequence."""
    lengths: tuple[int, ...]
    """Of each sequence."""
    predictors: Tensor
    """[N] index of the token whose output predicts each trained token."""
    targets: Tensor
    """[N] the trained tokens."""
    sequence_ids: Tensor
    """[N] sequence of each trained token."""
    temperatures: Tensor
    """[N]"""
    routed_experts: Tensor | None = None
    """[T, layers, experts a token] to replay."""


def pack(sequences: Sequence[TrainingSequence], device: torch.device) -> PackedBatch:
    """Lay `sequences` one after another."""
    token_ids = np.concatenate([sequence.token_ids for sequence in sequences]).astype(np.int64)
    mask = np.concatenate([sequence.loss_mask for sequence in sequences])
    trained = np.flatnonzero(mask)
    lengths = tuple(sequence.num_tokens for sequence in sequences)
    owners = np.repeat(np.arange(len(sequences)), lengths)[trained]
    positions = np.concatenate([np.arange(length) for length in lengths])
    assert (positions[trained] > 0).all(), "the first token of a sequence cannot be trained"
    temperatures = np.array([sequence.temperature for sequence in sequences], dtype=np.float32)[owners]

    def tensor(values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(device)

    return PackedBatch(
        token_ids=tensor(token_ids)[None],
        position_ids=tensor(positions)[None],
        lengths=lengths,
        predictors=tensor(trained - 1),
        targets=tensor(token_ids[trained]),
        sequence_ids=tensor(owners),
        temperatures=tensor(temperatures),
        routed_experts=tensor(routing) if (routing := _routing(sequences)) is not None else None,
    )


def _routing(sequences: Sequence[TrainingSequence]) -> NDArray[np.unsignedinteger] | None:
    """One after another; None unless all have it."""
    present = [sequence.routed_experts for sequence in sequences if sequence.routed_experts is not None]
    if len(present) < len(sequences):
        assert not present, "either all sequences of a micro-batch replay their routing or none"
        return None
    routing: NDArray[np.unsignedinteger] = np.concatenate(present)
    return routing
