"""FSDP2: shard a policy over the ranks and bring whole tensors back together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from sweyard_trainer.learner.policy import Policy


@dataclass(frozen=True, slots=True)
class ShardingOptions:
    """How a policy lies in memory."""

    compute_dtype: torch.dtype
    cpu_offload: bool


def shard(policy: Policy, mesh: DeviceMesh, options: ShardingOptions) -> None:
    """Shard each decoder layer and the rest; master weights float32, compute in `compute_dtype`, reduce in float32."""
    precision = MixedPrecisionPolicy(param_dtype=options.compute_dtype, reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy() if options.cpu_offload else OffloadPolicy()
    for layer in decoder_layers(policy.model):
        fully_shard(layer, mesh=mesh, mp_policy=precision, offload_policy=offload)
    fully_shard(policy, mesh=mesh, mp_policy=precision, offload_policy=offload)


def decoder_layers(model: PreTrainedModel) -> Iterator[nn.Module]:
    """The repeated blocks, which transformers names for exactly this purpose."""
    names = set(model._no_split_modules or ())
    return (module for module in model.modules() if type(module).__name__ in names)


def distribute_weights(policy: Policy, state: dict[str, Tensor] | None, device: torch.device) -> None:
    """Fill a sharded policy from rank 0's `state` (None elsewhere), a collective call. Names as in policy.model."""
    full: dict[str, Any] = {f"model.{name}": tensor for name, tensor in (state or {}).items()}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
    set_model_state_dict(policy, full, options=options)
    policy.model.tie_weights()
    empty = [name for name, parameter in policy.named_parameters() if parameter.is_meta]
    if empty:
        raise ValueError(f"the model's files lack {', '.join(empty[:3])}")
    for module in policy.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))


def gather_weights(policy: Policy, keep: bool) -> dict[str, Tensor]:
    """Whole weights on the CPU by the names of policy.model, a collective call; empty where not `keep`.

    One tensor is whole on the device at a time.
    """
    gathered: dict[str, Tensor] = {}
    for name, tensor in policy.model.state_dict().items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            gathered[name] = whole.detach().cpu()
    return gathered
