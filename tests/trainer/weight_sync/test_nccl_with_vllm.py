"""What NCCL transfers say to vLLM, against its own client, sender and routes; no server, for want of a GPU."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from tests.serving import serving
from transformers import AutoModelForCausalLM
from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo, worker_init_payload
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerWeightTransferEngine, NCCLWeightTransferUpdateInfo

from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.weight_sync.fan_out import RankedFanOutClient
from sweyard_trainer.weight_sync.senders import PolicySource, TransferClient

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
"""Of vLLM's, when it is imported."""


CPU = torch.device("cpu")


def test_it_speaks_the_protocol_of_vllms_own_client() -> None:
    for name in ("init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"):
        assert callable(getattr(HTTPVLLMWeightSyncClient, name))
        assert callable(getattr(RankedFanOutClient, name))


def test_what_is_announced_is_what_is_sent(tiny_model: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    source = PolicySource(Policy(model), torch.bfloat16, CPU)
    announced = [(meta.name, meta.dtype, meta.shape) for meta in source.metadata()]
    assert announced == [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in source]
    assert [name for name, _, _ in announced] == [name for name, _ in model.named_parameters()]


class EngineBehindRoutes:
    """What vLLM's own routes call; the rest of an engine is not there."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.update: NCCLWeightTransferUpdateInfo | None = None

    async def init_weight_transfer_engine(self, request: Any) -> None:
        info = NCCLWeightTransferInitInfo(**request.init_info)
        self.calls.append(f"init from rank {info.rank_offset} of {info.world_size}")

    async def start_weight_update(self) -> None:
        self.calls.append("start")

    async def update_weights(self, request: Any) -> None:
        self.calls.append("update")
        self.update = NCCLWeightTransferUpdateInfo(**request.update_info)

    async def finish_weight_update(self, weight_version: str | None) -> None:
        self.calls.append(f"finish {weight_version}")


class WithoutNccl(NCCLTrainerWeightTransferEngine):
    """vLLM's sender, but for the broadcast itself."""

    def _broadcast(self, source: Any, meta: Any) -> None:
        self.sent = list(self._checked_iter(source, meta))


@pytest.fixture
async def vllm_routes() -> AsyncIterator[tuple[str, EngineBehindRoutes]]:
    from vllm.entrypoints.rl.online.api_router import router

    app, engine = FastAPI(), EngineBehindRoutes()
    app.include_router(router)
    app.state.engine_client = engine
    async with serving(app) as url:
        yield url, engine


async def test_vllms_own_routes_take_what_the_sender_says(vllm_routes, tiny_model: Path) -> None:
    url, engine = vllm_routes
    source = PolicySource(Policy(AutoModelForCausalLM.from_pretrained(tiny_model)), torch.bfloat16, CPU)
    client = RankedFanOutClient([TransferClient(url)], workers_per_engine=2)
    info = NCCLWeightTransferInitInfo(
        master_address="rank-0", master_port=1234, rank_offset=1, world_size=client.world_size
    )
    await asyncio.to_thread(client.init_weight_transfer_engine, worker_init_payload(info))
    sender = WithoutNccl(client=client, source=source)
    await asyncio.to_thread(sender.send_weights)
    assert engine.calls == ["init from rank 1 of 3", "start", "update", "finish None"]
    assert engine.update is not None
    assert [name for name, _ in sender.sent] == engine.update.names
    assert engine.update.shapes == [list(tensor.shape) for _, tensor in sender.sent]
    assert set(engine.update.dtype_names) == {"bfloat16"}


async def test_a_server_that_refuses_a_transfer_is_named(vllm_routes) -> None:
    url, _ = vllm_routes
    with pytest.raises(WeightSyncError, match=rf"{url}/no-such-route failed: 404"):
        await asyncio.to_thread(TransferClient(url)._post, "no-such-route")
