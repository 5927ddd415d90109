"""What a handover by CUDA IPC says to vLLM, against its own client, sender and routes; no GPU memory is shared here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from tests.serving import serving
from transformers import AutoModelForCausalLM
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerWeightTransferEngine, IPCWeightTransferInitInfo
from vllm.distributed.weight_transfer.ipc_engine import IPCWeightTransferUpdateInfo as UpdateInfo

from sweyard_api.engine_command import engine_environment
from sweyard_api.resolve import resolve
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.weight_sync.colocated import ColocatedEngine, ColocatedFleet
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fan_out import FanOutClient
from sweyard_trainer.weight_sync.patience import Patience
from sweyard_trainer.weight_sync.senders import PolicySource, TransferClient

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
"""Of vLLM's, when it is imported."""


class EngineBehindRoutes:
    """What vLLM's own routes call; the rest of an engine is not there."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.updates: list[UpdateInfo] = []
        self.asleep = {"weights", "kv_cache"}
        self.version = "default"

    async def sleep(self, level: int, mode: str) -> None:
        self.calls.append(f"sleep {level} {mode}")
        self.asleep = {"weights", "kv_cache"}

    async def wake_up(self, tags: list[str]) -> bool:
        self.calls.append(f"wake {' '.join(tags)}")
        self.asleep -= set(tags)
        return not self.asleep

    async def init_weight_transfer_engine(self, request: Any) -> None:
        self.calls.append(f"init {IPCWeightTransferInitInfo(**request.init_info)}")

    async def start_weight_update(self) -> None:
        self.calls.append("start")

    async def update_weights(self, request: Any) -> None:
        assert self.asleep == {"kv_cache"}
        self.updates.append(UpdateInfo(**request.update_info))

    async def finish_weight_update(self, weight_version: str | None) -> None:
        self.calls.append(f"finish {weight_version}")

    async def update_weight_version(self, version: str) -> None:
        self.calls.append(f"version {version}")
        self.version = version

    async def get_weight_version(self) -> str:
        return self.version

    async def is_paused(self) -> bool:
        return bool(self.asleep)

    async def check_health(self) -> None: ...


class WithoutCuda(IPCTrainerWeightTransferEngine):
    """vLLM's sender, but for the memory: its handles name what would lie there."""

    def __init__(self, **given: Any) -> None:
        self.client, self.source, self.is_sender = given["client"], given["source"], given["is_sender"]
        self.packed = given["packed"]

    @staticmethod
    def _post_send_sync() -> None: ...

    def _send_packed(self, source: Any) -> None:
        for name, tensor in source:
            dtype = str(tensor.dtype).removeprefix("torch.")
            size = tensor.numel() * tensor.element_size()
            self._do_send([name], [dtype], [list(tensor.shape)], {"GPU-0": (name,)}, [size])


class Ranks:
    """The trainer's end, of one rank."""

    def __init__(self, model: Path) -> None:
        policy = Policy(AutoModelForCausalLM.from_pretrained(model))
        self.source = PolicySource(policy, torch.bfloat16, torch.device("cpu"))

    async def release_memory(self) -> None: ...

    async def open_handover(self, urls: list[str]) -> None:
        from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

        client = FanOutClient([TransferClient(url) for url in urls])
        init = IPCTrainerInitInfo(rank=0, packed=True)
        self.sender = await asyncio.to_thread(WithoutCuda.trainer_init, init, client=client, source=self.source)

    async def send_weights(self) -> None:
        await asyncio.to_thread(self.sender.send_weights)


@pytest.fixture
async def vllm_routes() -> AsyncIterator[tuple[str, EngineBehindRoutes]]:
    from vllm.entrypoints.rl.online.api_router import router as weights
    from vllm.entrypoints.serve.dev.sleep.api_router import router as sleep
    from vllm.entrypoints.serve.instrumentator.health import router as health

    app, engine = FastAPI(), EngineBehindRoutes()
    for router in (weights, sleep, health):
        app.include_router(router)
    app.state.engine_client = engine
    async with serving(app) as url:
        yield url, engine


async def test_vllms_own_routes_put_to_sleep_wake_and_take_what_the_sender_says(
    vllm_routes, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in engine_environment(resolve({"preset": "deepswe-32b"})).items():
        monkeypatch.setenv(name, value)
    url, engine = vllm_routes
    ranks = Ranks(tiny_model)
    await ColocatedFleet([ColocatedEngine(EngineControl(url))], Patience(pause=0.05), ranks).publish(7)
    assert engine.calls == [
        "sleep 2 abort",
        "wake weights",
        "init IPCWeightTransferInitInfo(packed=True)",
        "start",
        "finish None",
        "version 7",
        "wake kv_cache",
    ]
    assert [update.ipc_handles for update in engine.updates] == [{"GPU-0": (name,)} for name, _ in ranks.source]
    assert [update.shapes for update in engine.updates] == [[list(tensor.shape)] for _, tensor in ranks.source]
    assert {dtype for update in engine.updates for dtype in update.dtype_names} == {"bfloat16"}
