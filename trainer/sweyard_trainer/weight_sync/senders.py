"""The ranks' end of transfers between GPUs: vLLM's own senders, fed from a sharded policy."""

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from requests import RequestException
from torch import Tensor
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo, IPCTrainerWeightTransferEngine
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo, NCCLTrainerWeightTransferEngine

from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.sharding import stored_weights, whole
from sweyard_trainer.weight_sync.fan_out import FanOutClient, RankedFanOutClient


class PolicySource(WeightSource):  # type: ignore[misc]
    """The weights of a sharded policy, whole, one at a time; iterating is a collective of all ranks."""

    def __init__(self, policy: Policy, dtype: torch.dtype, device: torch.device) -> None:
        """`device` is where they travel from, wherever the shards are kept."""
        self._policy = policy
        self._dtype, self._device = dtype, device

    def metadata(self) -> list[ParamMeta]:
        """Names as in Hugging Face's files, the type that travels, whole shapes; in the order of iteration."""
        return [ParamMeta(name, self._dtype, tuple(tensor.shape)) for name, tensor in stored_weights(self._policy)]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in stored_weights(self._policy):
            yield name, whole(tensor.to(self._device)).to(self._dtype)


class TransferClient(HTTPVLLMWeightSyncClient):  # type: ignore[misc]
    """vLLM's client of one server, whose failures name it. Raises WeightSyncError."""

    def _post(self, path: str, json: dict[str, Any] | None = None) -> None:
        try:
            super()._post(path, json)
        except RequestException as error:
            raise WeightSyncError(f"{self.base_url}/{path} failed: {error}") from error


def open_transfer(
    source: PolicySource, rank: int, engine_urls: Sequence[str], workers_per_engine: int, master_host: str
) -> Any:
    """NCCL: join the engines' workers in one group; on rank 0 this waits until all have."""
    client = RankedFanOutClient([TransferClient(url) for url in engine_urls], workers_per_engine)
    init = NCCLTrainerInitInfo(
        master_address=master_host,
        master_port=_free_port() if rank == 0 else 0,
        world_size=client.world_size,
        rank=rank,
    )
    return NCCLTrainerWeightTransferEngine.trainer_init(init, client=client, source=source)


def open_handover(source: PolicySource, rank: int, engine_urls: Sequence[str]) -> Any:
    """CUDA IPC: each rank puts the weights into memory of its GPU, a gigabyte at a time, and rank 0 tells all engines
    where; a worker reads what lies on its own GPU."""
    client = FanOutClient([TransferClient(url) for url in engine_urls])
    init = IPCTrainerInitInfo(rank=rank, packed=True)
    return IPCTrainerWeightTransferEngine.trainer_init(init, client=client, source=source)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
