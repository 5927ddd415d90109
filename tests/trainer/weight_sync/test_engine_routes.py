"""The order of calls, words of failure: a fleet of engines on disk against servers that speak vLLM's routes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_trainer.atomic_directory import atomic_directory
from sweyard_trainer.errors import TakesNoWeightsError, WeightSyncError
from sweyard_trainer.exit_codes import exit_code_of
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fixed import FixedEngine, FixedFleet
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience


class Server:
    """One engine's control routes, with what can go wrong."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.loaded = ""
        self.version = "default"
        self.paused = False
        self.fail_on = ""
        self.hang_on = ""
        self.forget_version = False
        self.has_weight_routes = True

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{route:.+}", self.serve)
        return app

    async def serve(self, request: web.Request) -> web.Response:
        route = request.match_info["route"]
        body: dict[str, Any] = await request.json() if request.can_read_body else {}
        self.calls.append(route)
        if route == self.hang_on:
            await asyncio.sleep(60)
        if not self.has_weight_routes and route != "v1/models":
            return web.Response(status=404, text="Not Found")
        if route == self.fail_on:
            return web.Response(status=500, text="weights do not fit")
        match route:
            case "pause":
                assert request.query["mode"] == "wait"
                self.paused = True
            case "resume":
                self.paused = False
            case "collective_rpc":
                assert self.paused
                assert body["method"] == "reload_weights"
                self.loaded = body["kwargs"]["weights_path"]
            case "v1/load_lora_adapter":
                assert self.paused
                assert (body["lora_name"], body["load_inplace"]) == ("adapter", True)
                self.loaded = body["lora_path"]
                return web.Response(text="Success: LoRA adapter 'adapter' added successfully.")
            case "update_weight_version":
                self.version = self.version if self.forget_version else body["new_version"]
        return web.json_response({"weight_version": self.version, "is_paused": self.paused})


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Server], Awaitable[str]]]:
    runners = []

    async def start(server: Server) -> str:
        runner = web.AppRunner(server.app(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    with atomic_directory(tmp_path / "weights" / "7") as directory:
        (directory / "model.safetensors").touch()
    return tmp_path / "weights"


def fleet(urls: list[str], weights: Path, *, as_adapter: bool = False, **patience: float) -> Fleet:
    engines = [DiskEngine(EngineControl(url), weights, as_adapter=as_adapter) for url in urls]
    return Fleet(engines, Patience(**{"pause": 0.05, **patience}))


async def test_every_engine_loads_forgets_resumes_and_confirms(serve, weights: Path) -> None:
    servers = [Server(), Server()]
    await fleet([await serve(server) for server in servers], weights).publish(7)
    for server in servers:
        assert server.calls == [
            "pause",
            "collective_rpc",
            "reset_prefix_cache",
            "update_weight_version",
            "resume",
            "health",
            "weight_info",
            "is_paused",
        ]
        assert (server.loaded, server.version, server.paused) == (str(weights / "7"), "7", False)


async def test_an_engine_that_keeps_its_weights_gets_the_adapters_alone(serve, weights: Path) -> None:
    server = Server()
    await fleet([await serve(server)], weights, as_adapter=True).publish(7)
    assert server.calls[:2] == ["pause", "v1/load_lora_adapter"]
    assert (server.loaded, server.version, server.paused) == (str(weights / "7"), "7", False)


@pytest.mark.parametrize("route", ["pause", "collective_rpc", "resume", "weight_info"])
async def test_an_engine_that_fails_is_named_with_its_words(serve, weights: Path, route: str) -> None:
    server = Server()
    server.fail_on = route
    url = await serve(server)
    with pytest.raises(WeightSyncError, match=rf"{url}/{route}.* answered 500: weights do not fit"):
        await fleet([url], weights).publish(7)


async def test_an_engine_that_takes_no_weights_is_refused_with_what_would_allow_it(serve, weights: Path) -> None:
    server = Server()
    server.has_weight_routes = False
    url = await serve(server)
    with pytest.raises(TakesNoWeightsError, match=rf"{url} takes no weights.*inference\.fixedWeights allow") as refusal:
        await fleet([url], weights).publish(7)
    assert exit_code_of(refusal.value) == EXIT_CODE_USER_FAULT


async def test_where_it_is_allowed_an_engine_that_takes_no_weights_is_told_nothing(serve) -> None:
    server = Server()
    server.has_weight_routes = False
    url = await serve(server)
    sync = FixedFleet([FixedEngine(EngineControl(url))], Patience(pause=0.05))
    await sync.publish(7)
    assert (sync.serving, sync.sampled_version(7)) == ([url], 0)
    assert set(server.calls) == {"v1/models"}


async def test_an_engine_with_fixed_weights_that_dies_leaves(serve, unused_tcp_port: int) -> None:
    sync = FixedFleet(
        [FixedEngine(EngineControl(url)) for url in (f"http://127.0.0.1:{unused_tcp_port}", await serve(Server()))],
        Patience(pause=0.05),
    )
    await sync.publish(7)
    assert len(sync.serving) == 1


async def test_an_engine_that_failed_to_load_samples_nothing_until_a_repeat_mends_it(serve, weights: Path) -> None:
    server = Server()
    server.fail_on = "collective_rpc"
    sync = fleet([await serve(server)], weights)
    with pytest.raises(WeightSyncError):
        await sync.publish(7)
    assert server.paused
    server.fail_on = ""
    await sync.publish(7)
    assert (server.version, server.paused) == ("7", False)


async def test_an_engine_that_keeps_its_old_version_is_not_believed(serve, weights: Path) -> None:
    server = Server()
    server.forget_version = True
    with pytest.raises(WeightSyncError, match="serves weights default after version 7 was sent"):
        await fleet([await serve(server)], weights).publish(7)


@pytest.mark.parametrize("route", ["pause", "collective_rpc", "weight_info"])
async def test_a_hanging_engine_is_left_behind_at_its_deadline(serve, weights: Path, route: str) -> None:
    good, bad = Server(), Server()
    bad.hang_on = route
    urls = [await serve(good), await serve(bad)]
    sync = fleet(urls, weights, update=0.5, confirm=0.5)
    await sync.publish(7)
    assert sync.serving == urls[:1]


async def test_an_engine_that_is_still_starting_is_waited_for(serve, weights: Path, unused_tcp_port: int) -> None:
    server = Server()
    runner = web.AppRunner(server.app())
    await runner.setup()
    publishing = asyncio.create_task(fleet([f"http://127.0.0.1:{unused_tcp_port}"], weights).publish(7))
    await asyncio.sleep(0.1)
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    await publishing
    await runner.cleanup()
    assert server.version == "7"


async def test_weights_that_are_not_complete_are_never_sent(serve, weights: Path) -> None:
    server = Server()
    (weights / "8").mkdir()
    with pytest.raises(WeightSyncError, match="no complete weights"):
        await fleet([await serve(server)], weights).publish(8)
    assert server.calls == []
