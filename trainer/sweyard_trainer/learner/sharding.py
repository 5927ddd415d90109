"""FSDP2: shard a policy over the ranks and bring whole tensors back together."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from sweyard_trainer.learner.policy import Policy


@dataclass(frozen=True, slots=True)
class ShardingOptions:
    """How a policy lies in memory."""

    compute_dtype: torch.dtype
    cpu_offload: bool
    compile: bool


def shard(policy: Policy, mesh: DeviceMesh, options: ShardingOptions) -> None:
    """Shard each decoder layer and the rest; master weights float32, compute in `compute_dtype`, reduce in float32."""
    precision = MixedPrecisionPolicy(param_dtype=options.compute_dtype, reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy() if options.cpu_offload else OffloadPolicy()
    if options.compile:
        compile_layers(policy.model)
    for layer in decoder_layers(policy.model):
        fully_shard(layer, mesh=mesh, mp_policy=precision, offload_policy=offload)
    fully_shard(policy, mesh=mesh, mp_policy=precision, offload_policy=offload)


def compile_layers(model: PreTrainedModel) -> None:
    """Once for micro-batches of any length and number of sequences, each layer by itself: attention is left out."""
    for layer in decoder_layers(model):
        layer.compile(dynamic=True)


def decoder_layers(model: PreTrainedModel) -> Iterator[nn.Module]:
    """The repeated blocks, which transformers names for exactly this purpose."""
    names = set(model._no_split_modules or ())
    return (module for module in model.modules() if type(module).__name__ in names)


def distribute_weights(policy: Policy, state: dict[str, Tensor] | None, device: torch.device, host: bool) -> None:
    """Fill a sharded policy from rank 0's `state` (None elsewhere), a collective call. Names as in policy.model.

    Shards stay in host memory if `host` (CPU offload), else on `device`. Raises KeyError if `state` lacks a weight.
    """
    local: dict[str, Tensor] = {}
    for name, empty in policy.model.state_dict().items():
        whole = torch.empty(empty.shape, device=device) if state is None else state[name].to(device)
        if isinstance(empty, DTensor):
            whole = distribute_tensor(whole, empty.device_mesh, empty.placements)
        else:
            dist.broadcast(whole, src=0)
        local[name] = whole.cpu() if host else whole
    policy.model.load_state_dict(local, assign=True)
    policy.model.tie_weights()
    for module in policy.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))


def gather_weights(policy: Policy, keep: bool) -> dict[str, Tensor]:
    """Whole weights on the CPU by the names of policy.model, a collective call; empty where not `keep`.

    One tensor is whole on the device at a time. A tied weight comes once, as Hugging Face's files have it.
    """
    gathered: dict[str, Tensor] = {}
    for name, tensor in stored_weights(policy):
        value = whole(tensor)
        if keep:
            gathered[name] = value.detach().cpu()
    return gathered


def stored_weights(policy: Policy) -> Iterator[tuple[str, Tensor]]:
    """What belongs into files, as shards, in an order that is the same on all ranks."""
    stored = policy.model.state_dict().keys()
    named = chain(policy.model.named_parameters(), policy.model.named_buffers())
    return ((name, tensor) for name, tensor in named if name in stored)


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor brought together, a collective call."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
