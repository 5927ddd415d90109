"""The protocol around an NCCL transfer, as far as a CPU goes: ranks of workers, what is announced, order, deadline."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from transformers import AutoModelForCausalLM
from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient

from sweyard_trainer.errors import WeightSyncError
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.weight_sync.fan_out import FanOutClient
from sweyard_trainer.weight_sync.nccl import NcclWeightSync
from sweyard_trainer.weight_sync.nccl_sender import PolicySource


class RecordingClient:
    """One server's client; `together` proves that all are called at the same time."""

    def __init__(self, together: threading.Barrier) -> None:
        self.init_info: dict[str, Any] = {}
        self.calls: list[str] = []
        self._together = together

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._together.wait(10)
        self.init_info = init_info

    def start_weight_update(self) -> None:
        self.calls.append("start")

    def update_weights(self, update_info: Any) -> None:
        self._together.wait(10)
        self.calls.append(f"update {update_info}")

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.calls.append(f"finish {weight_version}")


def test_workers_of_all_engines_get_distinct_ranks_behind_the_sender() -> None:
    together = threading.Barrier(3)
    clients = [RecordingClient(together) for _ in range(3)]
    fan_out = FanOutClient(clients, workers_per_engine=4)
    fan_out.init_weight_transfer_engine({"rank_offset": 1, "world_size": fan_out.world_size})
    assert fan_out.world_size == 13
    assert [client.init_info["rank_offset"] for client in clients] == [1, 5, 9]
    fan_out.start_weight_update()
    fan_out.update_weights("u")
    fan_out.finish_weight_update("7")
    assert all(client.calls == ["start", "update u", "finish 7"] for client in clients)


def test_it_speaks_the_protocol_of_vllms_own_client() -> None:
    for name in ("init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"):
        assert callable(getattr(HTTPVLLMWeightSyncClient, name))
        assert callable(getattr(FanOutClient, name))


def test_what_is_announced_is_what_is_sent(tiny_model: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    source = PolicySource(Policy(model), torch.bfloat16)
    announced = [(meta.name, meta.dtype, meta.shape) for meta in source.metadata()]
    assert announced == [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in source]
    assert [name for name, _, _ in announced] == [name for name, _ in model.named_parameters()]


class FakeRanks:
    """A group of ranks whose transfers take as long as told."""

    size = 2

    def __init__(self, seconds: float, calls: list[str]) -> None:
        self._seconds = seconds
        self._calls = calls

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        assert len(per_rank) == self.size
        self._calls.append(method)
        await asyncio.sleep(self._seconds)
        return [None] * self.size


@pytest.fixture
async def engine(calls: list[str]) -> AsyncIterator[str]:
    version = "default"

    async def serve(request: web.Request) -> web.Response:
        nonlocal version
        calls.append(request.match_info["route"])
        if request.match_info["route"] == "update_weight_version":
            version = (await request.json())["new_version"]
        return web.json_response({"weight_version": version, "is_paused": False})

    app = web.Application()
    app.router.add_route("*", "/{route}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
def calls() -> list[str]:
    return []


async def test_ranks_send_while_engines_are_paused_and_open_the_group_once(engine: str, calls: list[str]) -> None:
    sync = NcclWeightSync(FakeRanks(0, calls), [engine], workers_per_engine=1, master_host="rank-0")
    await sync.publish(1)
    around = ["reset_prefix_cache", "update_weight_version", "resume", "weight_info", "is_paused"]
    assert calls == ["pause", "open_transfer", "send_weights", *around]
    calls.clear()
    await sync.publish(2)
    assert calls == ["pause", "send_weights", *around]


async def test_a_transfer_that_hangs_is_an_error_at_the_deadline(engine: str, calls: list[str]) -> None:
    ranks = FakeRanks(60, calls)
    sync = NcclWeightSync(ranks, [engine], workers_per_engine=1, master_host="rank-0", deadline_seconds=0.5)
    with pytest.raises(WeightSyncError, match=r"did not end within 0\.5 s"):
        await sync.publish(1)
