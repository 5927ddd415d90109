"""A policy from weights in Hugging Face format, sharded over the ranks."""

from pathlib import Path

import torch
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import init_device_mesh
from transformers.utils.logging import disable_progress_bar

from sweyard_api.infrastructure import Lora
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.attention import NAME, register_packed_attention
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.routing import RoutingReplay
from sweyard_trainer.learner.sharding import ShardingOptions, decoder_layers, distribute_weights, shard
from sweyard_trainer.model.load import empty_model, full_state
from sweyard_trainer.model.lora import add_adapters


def load_policy(
    directory: Path,
    spec: TrainingRunSpec,
    lora: Lora | None,
    *,
    rank: int,
    size: int,
    device: torch.device,
    sequence_group: ProcessGroup | None,
) -> Policy:
    """In training mode, with fresh adapters if `lora`. A collective call of `size` ranks, of which the first reads."""
    register_packed_attention()
    disable_progress_bar()
    model = empty_model(directory, NAME)
    if lora is not None:
        add_adapters(model, lora)
    if spec.trainer.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    replay = RoutingReplay(model, list(decoder_layers(model))) if spec.trainer.replay_routing else None
    policy = Policy(model, sequence_group, replay).train()
    shard(
        policy,
        init_device_mesh(device.type, (size,)),
        ShardingOptions(compute_dtype(spec), spec.trainer.cpu_offload, spec.trainer.compile),
    )
    base = lora.base if lora else "full"
    state = full_state(directory, model, spec.seed, base) if rank == 0 else None
    distribute_weights(policy, state, device, host=spec.trainer.cpu_offload)
    return policy


def compute_dtype(spec: TrainingRunSpec) -> torch.dtype:
    """What layers compute in, and weights are written in."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[spec.trainer.dtype]
