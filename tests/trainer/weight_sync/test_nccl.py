"""The protocol around an NCCL transfer, as far as a CPU goes: ranks of workers, what is announced, order, deadline."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from sweyard_trainer.errors import EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fan_out import RankedFanOutClient
from sweyard_trainer.weight_sync.nccl import NcclEngine, NcclFleet
from sweyard_trainer.weight_sync.patience import Patience


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
    fan_out = RankedFanOutClient(clients, workers_per_engine=4)
    fan_out.init_weight_transfer_engine({"rank_offset": 1, "world_size": fan_out.world_size})
    assert fan_out.world_size == 13
    assert [client.init_info["rank_offset"] for client in clients] == [1, 5, 9]
    fan_out.start_weight_update()
    fan_out.update_weights("u")
    fan_out.finish_weight_update("7")
    assert all(client.calls == ["start", "update u", "finish 7"] for client in clients)


class Sender:
    """Ranks whose transfers take as long as told."""

    def __init__(self, calls: list[str], seconds: float = 0.0) -> None:
        self._calls = calls
        self._seconds = seconds

    async def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None:
        assert (workers_per_engine, master_host) == (2, "rank-0")
        self._calls.append(f"open_transfer {len(engine_urls)}")

    async def send_weights(self) -> None:
        self._calls.append("send_weights")
        await asyncio.sleep(self._seconds)


class Server:
    """One engine's control routes."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.version = "default"
        self.paused = False
        self.runner: web.AppRunner | None = None

    async def start(self, port: int) -> str:
        app = web.Application()
        app.router.add_route("*", "/{route}", self.serve)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}"

    async def die(self) -> None:
        assert self.runner is not None
        await self.runner.cleanup()

    async def serve(self, request: web.Request) -> web.Response:
        route = request.match_info["route"]
        self.calls.append(route)
        if route == "update_weight_version":
            self.version = (await request.json())["new_version"]
        if route in ("pause", "resume"):
            self.paused = route == "pause"
        return web.json_response({"weight_version": self.version, "is_paused": self.paused})


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
async def two(calls: list[str], unused_tcp_port_factory) -> AsyncIterator[list[tuple[Server, int, str]]]:
    servers = [(Server(calls), unused_tcp_port_factory()) for _ in range(2)]
    yield [(server, port, await server.start(port)) for server, port in servers]
    for server, _ in servers:
        await server.die()


def fleet(urls: Sequence[str], sender: Sender, **patience: float) -> NcclFleet:
    return NcclFleet(
        [NcclEngine(EngineControl(url)) for url in urls],
        Patience(**{"pause": 0.05, **patience}),
        sender,
        workers_per_engine=2,
        master_host="rank-0",
    )


async def test_ranks_send_while_engines_are_paused_and_open_the_group_once(two, calls: list[str]) -> None:
    (server, _, url), _ = two
    sync = fleet([url], Sender(calls))
    await sync.publish(1)
    around = ["reset_prefix_cache", "update_weight_version", "resume", "health", "weight_info", "is_paused"]
    assert calls == ["pause", "open_transfer 1", "send_weights", *around]
    calls.clear()
    await sync.publish(2)
    assert calls == ["pause", "send_weights", *around]
    assert (server.version, server.paused, sync.serving) == ("2", False, [url])


async def test_a_transfer_that_hangs_is_an_error_at_the_deadline(two, calls: list[str]) -> None:
    sync = fleet([two[0][2]], Sender(calls, seconds=60), update=0.5)
    with pytest.raises(WeightSyncError, match=r"did not end within 0\.5 s"):
        await sync.publish(1)


async def test_a_dead_engine_is_left_out_of_the_group_and_joins_it_again(two, calls: list[str]) -> None:
    (_, _, url), (other, port, other_url) = two
    sync = fleet([url, other_url], Sender(calls))
    await sync.publish(1)
    await other.die()
    await sync.publish(2)
    assert sync.serving == [url]
    other.version = "default"
    await other.start(port)
    await sync.publish(3)
    assert sync.serving == [url, other_url]
    opened = [call for call in calls if call.startswith("open")]
    assert opened == ["open_transfer 2", "open_transfer 1", "open_transfer 2"]
    assert other.version == "3"


async def test_a_last_engine_that_is_back_without_weights_ends_the_life_that_cannot_send_them(
    two, calls: list[str]
) -> None:
    (server, _, url), _ = two
    sync = fleet([url], Sender(calls))
    await sync.publish(1)
    server.version = "default"

    async def nothing() -> None: ...

    with pytest.raises(EnginesGoneError, match="is back with weights default"):
        await sync.watch(nothing)
