"""Learner: the one object through which the main loop trains.

It owns a group of ranks (this process, or Ray actors) and never touches the model itself. All planning (advantages,
weights of each sequence in the loss, micro-batches) happens here, once, over the whole batch, so that ranks,
micro-batches and accumulation cannot change the result.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweyard_api.engine_command import engine_takes_adapters
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.atomic_directory import atomic_directory, remove_abandoned, remove_directory
from sweyard_trainer.checkpoint.damage import typed_damage
from sweyard_trainer.checkpoint.newest import load_newest
from sweyard_trainer.checkpoint.save import CheckpointSave, typed_checkpoint_errors
from sweyard_trainer.checkpoint.saved import Saved
from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.custom import load_group_filter
from sweyard_trainer.daemon_thread import in_daemon_thread
from sweyard_trainer.errors import NothingToTrainError
from sweyard_trainer.learner.batches import build_attempts, counts, split_minibatches, supervised_sequences, weigh
from sweyard_trainer.learner.passes import Passes
from sweyard_trainer.learner.ranks import RankGroup
from sweyard_trainer.learner.schedule import Phase, phase_of
from sweyard_trainer.learner.sequences import TrainingSequence
from sweyard_trainer.learner.support import refuse_other_policy, refuse_unrouted, refuse_unsupported
from sweyard_trainer.rollouts.seen_tokens import SeenTokens
from sweyard_trainer.trajectory import Segment, Trajectory

StepMetrics = dict[str, float]
"""Names are stable. Always: loss, grad_norm, learning_rate, tokens, trained_tokens, sequences, updates, seconds.
Policy gradient also: entropy, clip_fraction, correction_mean, engine_kl, engine_ratio_mean, engine_logprob_gap_max, and
kl with a penalty; these are over the tokens that had an advantage. Of those that were sampled by the very weights with
which the step began: fresh_tokens, fresh_engine_kl; this is unset without any."""

KEPT_WEIGHTS = 2


class Learner:
    """Trains the policy. Its methods must not run at the same time."""

    def __init__(self, spec: TrainingRunSpec, storage: Path, ranks: RankGroup, checkpoints: CheckpointStore) -> None:
        """`spec` is the resolved config; `storage` the run's volume, whose `model/` has been prepared."""
        self._spec = spec
        self._storage = storage
        self._checkpoints = checkpoints
        self._ranks = ranks
        self._passes = Passes(spec, ranks)
        self._phase: Phase | None = None
        self._updates = 0
        self._held: list[Trajectory] = []
        """Attempts that were saved with the checkpoint that was loaded last."""
        self._seen: dict[tuple[str, int], SeenTokens] = {}

    async def start(self) -> None:
        """Start the ranks and load the initial weights. Raises UnsupportedError for what cannot be trained."""
        refuse_unsupported(self._spec, self._storage / "model")
        await self._ranks.start()
        await self._on_all("load_model")

    async def sft_step(self, sequences: Sequence[Segment]) -> StepMetrics:
        """One optimizer step of next-token cross-entropy on the tokens whose `loss_mask` is true (mean over them).

        In mode `rl` it uses the learning rate and length of `warmup`, in mode `sft` those of `optimizer` and `steps`.
        Raises NothingToTrainError, TrainingDivergedError.
        """
        began = time.monotonic()
        trained = supervised_sequences(sequences)
        if not trained:
            raise NothingToTrainError("no sequence of the batch has a token to train")
        phase = await self._enter("sft")
        metrics = await self._passes.supervised_update(trained, phase.rate(self._updates))
        self._updates += 1
        return metrics | _counts(trained) | {"updates": 1.0, "seconds": time.monotonic() - began}

    async def train_step(self, groups: Sequence[Sequence[Trajectory]], version: int | None = None) -> StepMetrics:
        """One batch of the policy gradient: `epochsPerBatch` x `minibatches` optimizer steps; metrics of the last.

        `version` is what engines call the weights that it begins with; None is not known to have sampled any token.
        Infrastructure outcomes may be in `groups`; they are left out of everything. The first call ends the warm-up:
        the optimizer starts afresh and, with a KL penalty, the weights of this moment become the reference.
        A batch in which no attempt has an advantage changes nothing and says updates = 0.
        Raises NothingToTrainError if no attempt is left (nothing has changed then), TrainingDivergedError, and
        EngineDivergedError if the engine cannot have sampled with these weights; the last checkpoint is from before.
        """
        began = time.monotonic()
        self._seen = {}
        # A user's own code may take its time, and hold up neither leases nor heartbeats meanwhile.
        groups = await in_daemon_thread(load_group_filter(self._spec.algorithm), groups)
        if not any(counts(trajectory, self._spec.algorithm) for group in groups for trajectory in group):
            raise NothingToTrainError(
                "every attempt of the batch failed for infrastructure's sake, or is left out by algorithm.dropOutcomes "
                "or algorithm.groupFilter"
            )
        refuse_unrouted(self._spec, groups)
        phase = await self._enter("rl")
        rewards = await self._passes.rewards(groups)
        attempts = await in_daemon_thread(build_attempts, groups, rewards, self._spec.algorithm, version)
        if not attempts:
            raise NothingToTrainError("every attempt of the batch is masked by algorithm.maskOutcomes or has no token")
        attempts = await self._passes.with_logprobs(attempts)
        metrics: StepMetrics = {"loss": 0.0, "grad_norm": 0.0, "learning_rate": phase.rate(self._updates)}
        num_updates = 0
        for _ in range(self._spec.algorithm.epochs_per_batch):
            seed = self._spec.seed + self._updates
            for part in split_minibatches(attempts, self._spec.algorithm.minibatches, seed):
                sequences = weigh(part, self._spec.algorithm, self._spec.rollout.max_response_tokens)
                if sequences:
                    metrics, seen = await self._passes.policy_update(sequences, phase.rate(self._updates))
                    self._updates += 1
                    for tokens in seen:
                        self._seen.setdefault((tokens.attempt_id, tokens.segment), tokens)
                    refuse_other_policy(self._spec, metrics)
                    num_updates += 1
        everything = [sequence for attempt in attempts for sequence in attempt.sequences]
        return metrics | _counts(everything) | {"updates": float(num_updates), "seconds": time.monotonic() - began}

    def take_seen(self) -> list[SeenTokens]:
        """Of each segment that the last `train_step` trained, once."""
        seen, self._seen = list(self._seen.values()), {}
        return seen

    async def save_weights(self, version: int) -> Path:
        """Write the policy in HF format to `<storage>/weights/<version>`, atomically; keep it and the one before.

        With trainer.lora.sync: adapter these are the adapters alone. Raises StorageFullError.
        """
        method = "write_adapter" if engine_takes_adapters(self._spec) else "write_weights"
        target = await self._write(method, self._storage / "weights" / str(version))
        others = [path for path in target.parent.iterdir() if path.name.isdigit() and int(path.name) != version]
        before = sorted((path for path in others if int(path.name) < version), key=lambda path: int(path.name))
        for path in set(others) - set(before[-(KEPT_WEIGHTS - 1) :]):
            remove_directory(path)
        return target

    async def save_checkpoint(
        self,
        step: int,
        extra: Mapping[str, Any],
        best_first: Sequence[int] = (),
        *,
        held: Sequence[Trajectory] = (),
        in_warmup: bool = False,
    ) -> str:
        """Begin to save everything needed to go on exactly; where it will lie. Waits for the one before.

        `step` is one of the main phase, or of the warm-up; `extra` is the caller's own JSON-able state, `held` the
        attempts that belong to it; for `best_first` see retention.superfluous. Once this returns, training may go on.
        Raises as `settle_checkpoint` does; the last complete checkpoint stays usable.
        """
        await self.settle_checkpoint()
        store = self._checkpoints
        with typed_checkpoint_errors(store, Saved(not in_warmup, step).name):
            name = await asyncio.to_thread(store.begin, step, in_warmup=in_warmup)
        state = CheckpointState(step, self._phase.name if self._phase else None, self._updates, dict(extra))
        save = CheckpointSave(store.root, name, state, self._spec.checkpoint.keep, tuple(best_first))
        shares: list[Sequence[Trajectory]] = [held, *[()] * (self._ranks.size - 1)]
        await self._ranks.call("start_checkpoint", [(save, share) for share in shares])
        return str(store.place(name))

    async def settle_checkpoint(self, *, wait: bool = True) -> bool:
        """Whether what was begun is complete; with `wait`, once it is.

        Raises StorageFullError, StorageReadOnlyError, CheckpointError if it could not be written.
        """
        return all(await self._on_all("settle_checkpoint", wait))

    async def load_latest(self) -> tuple[int, dict[str, Any]] | None:
        """Go back to the latest complete checkpoint that can be read: (step, extra), or None if there is none.

        Raises CheckpointDamagedError if there are some and none can be read.
        """
        await self.settle_checkpoint()
        return await load_newest(self._checkpoints, self.load)

    async def load_held(self) -> list[Trajectory]:
        """The attempts that were saved with what was loaded last."""
        return self._held

    async def load(self, name: str) -> tuple[int, dict[str, Any]]:
        """Go back to a complete checkpoint: (step, extra). Raises CheckpointDamagedError."""
        store = self._checkpoints
        await self._on_all("verify_checkpoint", store.root, name)
        with typed_damage(store, name):
            state = await asyncio.to_thread(store.read_state, name)
            self._held = await asyncio.to_thread(store.read_held, name)
        self._phase = phase_of(state.phase, self._spec) if state.phase else None
        self._updates = state.updates
        await self._on_all("read_checkpoint", store.root, name, self._phase is not None)
        if state.phase == "rl" and self._spec.algorithm.kl.coefficient > 0:
            await self._on_all("load_reference", self._storage / "reference")
        return state.step, state.extra

    async def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None:
        """Join the workers of these engines in one NCCL group with rank 0, which they reach at `master_host`."""
        await self._on_all("open_transfer", tuple(engine_urls), workers_per_engine, master_host)

    async def open_handover(self, engine_urls: Sequence[str]) -> None:
        """Prepare to hand weights over, by CUDA IPC, to these engines, which share the ranks' GPUs."""
        await self._on_all("open_handover", tuple(engine_urls))

    async def send_weights(self) -> None:
        """The policy into the engines, which must take no requests. Over NCCL this hangs if one of them died."""
        await self._on_all("send_weights")

    async def release_memory(self) -> None:
        """Leave to others on the same GPUs what no tensor needs."""
        await self._on_all("release_memory")

    async def stop(self) -> None:
        """End the ranks; safe to call twice."""
        await self._ranks.stop()

    async def _enter(self, name: str) -> Phase:
        if self._phase is not None and self._phase.name == name:
            return self._phase
        await self._on_all("begin_phase")
        if name == "rl" and self._spec.algorithm.kl.coefficient > 0:
            await self._on_all("load_reference", await self._write("write_weights", self._storage / "reference"))
        self._phase, self._updates = phase_of(name, self._spec), 0
        return self._phase

    async def _write(self, method: str, target: Path) -> Path:
        remove_directory(target)  # left by an earlier attempt, perhaps from other weights
        remove_abandoned(target)
        with atomic_directory(target) as partial:
            await self._on_all(method, partial)
        return target

    async def _on_all(self, method: str, *arguments: Any) -> list[Any]:
        return await self._ranks.call(method, [arguments] * self._ranks.size)


def _counts(sequences: Sequence[TrainingSequence]) -> StepMetrics:
    return {
        "tokens": float(sum(sequence.num_tokens for sequence in sequences)),
        "trained_tokens": float(sum(sequence.num_trained for sequence in sequences)),
        "sequences": float(len(sequences)),
    }
