"""Learner: the one object through which the main loop trains.

It owns a group of ranks (this process, or Ray actors) and never touches tensors of the model itself. All planning
(advantages, weights of each sequence in the loss, micro-batches) happens here, once, over the whole batch, so that
ranks, micro-batches and accumulation cannot change the result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.ranks import RankGroup
from sweyard_trainer.trajectory import Segment, Trajectory

StepMetrics = dict[str, float]
"""Names are stable: loss, grad_norm, learning_rate, entropy, kl, clip_fraction, engine_kl, engine_ratio_mean,
engine_ratio_max, correction_mean, tokens, trained_tokens, sequences, updates, seconds."""


class Learner:
    """Trains the policy. Methods must not run at the same time, save that `stop` may end them."""

    def __init__(self, spec: TrainingRunSpec, storage: Path, ranks: RankGroup) -> None:
        """`spec` is the resolved config; `storage` the run's volume, whose `model/` has been prepared."""
        self._spec = spec
        self._storage = storage
        self._ranks = ranks

    async def start(self) -> None:
        """Start the ranks and load the initial weights. Raises UserError for what cannot be trained."""
        raise NotImplementedError

    async def sft_step(self, sequences: Sequence[Segment]) -> StepMetrics:
        """One optimizer step of next-token cross-entropy on the tokens whose `loss_mask` is true (mean over them).

        In mode `rl` it uses the learning rate and length of `warmup`, in mode `sft` those of `optimizer` and `steps`.
        """
        raise NotImplementedError

    async def train_step(self, groups: Sequence[Sequence[Trajectory]]) -> StepMetrics:
        """One batch of the policy gradient: `epochs_per_batch` x `minibatches` optimizer steps.

        Infrastructure outcomes may be in `groups`; they are left out of everything. The first call ends the warm-up:
        the optimizer starts afresh and, with a KL penalty, the weights of this moment become the reference.
        Raises NothingToTrainError if no attempt is left; nothing has changed then.
        """
        raise NotImplementedError

    async def save_weights(self, version: int) -> Path:
        """Write the policy in HF format to `<storage>/weights/<version>`, atomically; keep the last two."""
        raise NotImplementedError

    async def save_checkpoint(self, step: int, extra: Mapping[str, Any]) -> Path:
        """Save everything needed to go on exactly; `extra` is the caller's own JSON-able state.

        Raises StorageFullError if the volume is full; the last complete checkpoint stays usable.
        """
        raise NotImplementedError

    async def load_latest(self) -> tuple[int, dict[str, Any]] | None:
        """Go back to the latest complete checkpoint: (step, extra), or None if there is none."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the ranks; safe to call twice."""
        raise NotImplementedError
