"""RankWorker: one process's share of the learner. Every public method is called on all ranks alike."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.optim import AdamW

from sweyard_api.infrastructure import Lora
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.checkpoint.damage import typed_damage
from sweyard_trainer.checkpoint.save import CheckpointSave
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.checkpoint.tensors import read_tensors, stage
from sweyard_trainer.learner.lost_ranks import typed_rank_loss
from sweyard_trainer.learner.objective import Figures, policy_gradient_loss, supervised_loss
from sweyard_trainer.learner.optimizer import clipped_step, make_optimizer
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.policy_loading import compute_dtype, load_policy
from sweyard_trainer.learner.sequence_parallel import make_sequence_group
from sweyard_trainer.learner.sequences import TrainingSequence, pack
from sweyard_trainer.learner.sharding import gather_weights
from sweyard_trainer.model.lora import fold_adapters, save_adapter
from sweyard_trainer.model.save import save_model
from sweyard_trainer.trajectory import Trajectory

Microbatches = list[list[TrainingSequence]]
COLLECTIVE_TIMEOUT = timedelta(minutes=30)


class RankWorker:
    """Model shard, optimizer shard, and the passes over them."""

    def __init__(self, rank: int, size: int, spec: TrainingRunSpec, storage: Path, num_threads: int | None) -> None:
        self._rank, self._size, self._spec, self._storage = rank, size, spec, storage
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        self._device = _device(spec)
        self._policy: Policy | None = None
        self._reference: Policy | None = None
        self._optimizer: AdamW | None = None
        self._checkpoint: Future[None] | None = None
        self._checkpoint_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")

    def open_store(self, host: str) -> int:
        """On rank 0: listen for the others; returns the port."""
        self._store = TCPStore(host, 0, self._size, is_master=True, wait_for_workers=False)
        return int(self._store.port)

    def connect(self, host: str, port: int) -> None:
        """Join the process group, whose store rank 0 serves."""
        store = self._store if self._rank == 0 else TCPStore(host, port, self._size, is_master=False)
        backend = "cpu:gloo,cuda:nccl" if self._device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend, store=store, rank=self._rank, world_size=self._size, timeout=COLLECTIVE_TIMEOUT
        )
        # Its collectives run beside training's, and on host memory.
        self._checkpoint_group = dist.new_group(backend="gloo", timeout=COLLECTIVE_TIMEOUT)
        self._sequence_group = make_sequence_group(self._spec.trainer.sequence_parallel)

    def load_model(self) -> None:
        """Shard the initial weights of `<storage>/model` over the ranks."""
        torch.manual_seed(self._spec.seed + self._rank)
        self._policy = self._load(self._storage / "model", self._spec.trainer.lora)

    def load_reference(self, directory: Path) -> None:
        """Keep a second, frozen policy, from weights in HF format."""
        self._reference = self._load(directory, None).requires_grad_(False)

    def begin_phase(self) -> None:
        """A fresh optimizer."""
        self._optimizer = make_optimizer(self._model.parameters(), self._spec.optimizer)

    def logprobs(self, microbatches: Microbatches, of_reference: bool) -> list[list[NDArray[np.float32]]]:
        """Of the trained tokens of each sequence, as the present (or the reference) policy sees them."""
        policy = self._reference if of_reference else self._model
        assert policy is not None, "load_reference first"
        results: list[list[NDArray[np.float32]]] = []
        with torch.no_grad():
            for sequences in microbatches:
                flat = policy(pack(sequences or [_nothing()], self._device))[0]
                results.append(_by_sequence(flat, sequences))
        return results

    def supervised_update(self, microbatches: Microbatches, learning_rate: float) -> Figures:
        """One optimizer step of cross-entropy. Figures: loss; maxima: grad_norm."""
        figures = Figures()
        for sequences in microbatches:
            batch = pack(sequences or [_nothing()], self._device)
            logprobs, _ = self._model(batch)
            loss = supervised_loss(logprobs, batch, sequences or [_nothing()])
            torch.autograd.backward(loss * self._loss_scale)
            figures.add(Figures({"loss": loss.item()}))
        return self._step(figures, learning_rate)

    def policy_update(
        self, microbatches: Microbatches, learning_rate: float
    ) -> tuple[Figures, list[list[NDArray[np.float32]]]]:
        """One optimizer step of the policy gradient; [2, number of trained tokens] of each sequence: the logprobs and
        entropies before it."""
        figures = Figures()
        seen: list[list[NDArray[np.float32]]] = []
        algorithm = self._spec.algorithm
        for sequences in microbatches:
            present = sequences or [_nothing()]
            batch = pack(present, self._device)
            logprobs, entropies = self._model(batch, algorithm.entropy_coefficient > 0)
            loss, own = policy_gradient_loss(algorithm, logprobs, entropies, batch, present)
            torch.autograd.backward(loss * self._loss_scale)
            seen.append(_by_sequence(torch.stack((logprobs.detach(), entropies.detach())), sequences))
            if sequences:
                figures.add(own)
                figures.add(Figures({"loss": loss.item(), "figure_tokens": len(batch.targets)}))
        return self._step(figures, learning_rate), seen

    def write_weights(self, directory: Path) -> None:
        """Whole weights in HF format; rank 0 writes."""
        state = gather_weights(self._model, keep=self._rank == 0)
        if self._rank == 0:
            lora = self._spec.trainer.lora
            state = fold_adapters(state, lora) if lora else state
            save_model(self._model.model, state, compute_dtype(self._spec), self._storage / "model", directory)

    def write_adapter(self, directory: Path, base: str | None = None) -> None:
        """The adapters alone, as peft and vLLM take them, for the model `base`, default the run's; rank 0 writes."""
        lora = self._spec.trainer.lora
        assert lora is not None, "trainer.lora is unset"
        state = gather_weights(self._model, keep=self._rank == 0)
        if self._rank == 0:
            save_adapter(state, lora, base or str(self._storage / "model"), directory)

    def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None:
        """Join the engines' workers for NCCL transfers of the weights."""
        from sweyard_trainer.weight_sync.senders import PolicySource, open_transfer  # needs vLLM

        source = PolicySource(self._model, compute_dtype(self._spec), self._device)
        self._transfer = open_transfer(source, self._rank, engine_urls, workers_per_engine, master_host)

    def open_handover(self, engine_urls: Sequence[str]) -> None:
        """Prepare to hand weights over to engines on these GPUs."""
        from sweyard_trainer.weight_sync.senders import PolicySource, open_handover  # needs vLLM

        source = PolicySource(self._model, compute_dtype(self._spec), self._device)
        self._transfer = open_handover(source, self._rank, engine_urls)

    def send_weights(self) -> None:
        """The present weights into the engines, by the way that was opened; they must take no requests."""
        self._transfer.send_weights()

    def release_memory(self) -> None:
        """Give back to the GPU what PyTorch keeps of it for later."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def start_checkpoint(self, save: CheckpointSave, held: Sequence[Trajectory]) -> None:
        """Copy this rank's share into host memory and begin to write it, and `held`; the one before must be settled."""
        staged = stage(self._model, self._optimizer)
        self._checkpoint = self._checkpoint_thread.submit(save.write, self._rank, staged, self._checkpoint_group, held)

    def settle_checkpoint(self, wait: bool) -> bool:
        """Whether this rank's share of what was begun is written. Raises as CheckpointSave.write does."""
        if self._checkpoint is None:
            return True
        if not wait and not self._checkpoint.done():
            return False
        checkpoint, self._checkpoint = self._checkpoint, None
        checkpoint.result()
        return True

    def verify_checkpoint(self, root: str, name: str) -> None:
        """Look at this rank's share of the files, beside the other ranks. Raises CheckpointDamagedError."""
        store = CheckpointStore(root)
        with typed_damage(store, name):
            store.verify(name, self._rank, self._size)

    def read_checkpoint(self, root: str, name: str, with_optimizer: bool) -> None:
        """Go back to a checkpoint. Raises CheckpointDamagedError, RankDiedError."""
        self._optimizer = None
        if with_optimizer:
            self.begin_phase()
        store = CheckpointStore(root)
        with typed_damage(store, name), typed_rank_loss():
            read_tensors(store, name, self._rank, self._model, self._optimizer)

    def close(self) -> None:
        """Finish the checkpoint that was begun, leave the process group and free the memory."""
        self._checkpoint_thread.shutdown(wait=True)
        self._policy = self._reference = self._optimizer = None
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def _loss_scale(self) -> float:
        """FSDP averages gradients over ranks, but the loss is a sum; ranks that share sequences each see it whole, and
        gradients are summed over them."""
        return self._size / self._spec.trainer.sequence_parallel

    @property
    def _model(self) -> Policy:
        assert self._policy is not None, "load_model first"
        return self._policy

    def _load(self, directory: Path, lora: Lora | None) -> Policy:
        return load_policy(
            directory,
            self._spec,
            lora,
            rank=self._rank,
            size=self._size,
            device=self._device,
            sequence_group=self._sequence_group,
        )

    def _step(self, figures: Figures, learning_rate: float) -> Figures:
        assert self._optimizer is not None, "begin_phase first"
        most = self._spec.optimizer.max_grad_norm
        figures.maxima["grad_norm"] = clipped_step(self._optimizer, self._model, learning_rate, max_grad_norm=most)
        return figures


def _nothing() -> TrainingSequence:
    """What a rank without work passes through, so that collectives match."""
    mask = np.array([False, True])
    return TrainingSequence(np.zeros(2, np.int32), mask, np.zeros(2, np.float32), weight=0.0)


def _by_sequence(values: Tensor, sequences: Sequence[TrainingSequence]) -> list[NDArray[np.float32]]:
    """[..., N] values of the trained tokens, in parts."""
    ends = np.cumsum([sequence.num_trained for sequence in sequences], dtype=np.int64)
    return np.split(values.cpu().numpy(), ends[:-1], axis=-1) if sequences else []


def _device(spec: TrainingRunSpec) -> torch.device:
    """Ray shows each rank its own GPU only."""
    wanted = spec.trainer.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted, 0) if wanted == "cuda" else torch.device("cpu")
