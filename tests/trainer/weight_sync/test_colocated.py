"""Taking turns on shared GPUs: order of calls, what ends the life, against servers that speak vLLM's routes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sweyard_trainer.atomic_directory import atomic_directory
from sweyard_trainer.errors import EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.colocated import ColocatedEngine, ColocatedFleet
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.patience import Patience


class Server:
    """One engine: what it has in GPU memory, and of which version."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.holds = {"weights", "kv_cache"}
        self.version = "default"
        self.fail_on = self.hang_on = ""
        self.runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> str:
        app = web.Application()
        app.router.add_route("*", "/{route:.+}", self.serve)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def die(self) -> None:
        assert self.runner is not None
        await self.runner.cleanup()

    async def serve(self, request: web.Request) -> web.Response:
        route = request.match_info["route"]
        if route == self.hang_on:
            await asyncio.sleep(60)
        if route == self.fail_on:
            return web.Response(status=500, text="out of memory")
        match route:
            case "sleep":
                assert dict(request.query) == {"level": "2", "mode": "abort"}
                self.holds.clear()
            case "wake_up":
                (tag,) = request.query.getall("tags")
                assert tag not in self.holds
                self.holds.add(tag)
                route = f"wake {tag}"
            case "collective_rpc":
                assert self.holds == {"weights"}
                route = f"load {Path((await request.json())['kwargs']['weights_path']).name}"
            case "update_weight_version":
                self.version = (await request.json())["new_version"]
        if request.method == "POST":
            self.calls.append(route)
        paused = len(self.holds) < 2
        return web.json_response({"weight_version": self.version, "is_paused": paused})


class Ranks:
    """The trainer's end: what it is told, and that no engine has more than its weights while these are sent."""

    def __init__(self, calls: list[str], servers: Sequence[Server] = ()) -> None:
        self._calls, self._servers = calls, servers
        self.seconds = 0.0

    async def release_memory(self) -> None:
        assert all(not server.holds for server in self._servers)
        self._calls.append("release memory")

    async def open_handover(self, engine_urls: Sequence[str]) -> None:
        self._calls.append(f"open for {len(engine_urls)}")

    async def send_weights(self) -> None:
        assert all(server.holds == {"weights"} for server in self._servers)
        self._calls.append("send")
        await asyncio.sleep(self.seconds)


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
async def servers(calls: list[str]) -> AsyncIterator[list[Server]]:
    made = [Server(calls), Server(calls)]
    yield made
    for server in made:
        if server.runner is not None:
            await server.die()


def fleet(urls: Sequence[str], ranks: Ranks, weights: Path | None = None, **patience: float) -> ColocatedFleet:
    controls = [EngineControl(url) for url in urls]
    disks = [None if weights is None else DiskEngine(control, weights) for control in controls]
    engines = [ColocatedEngine(control, disk) for control, disk in zip(controls, disks, strict=True)]
    return ColocatedFleet(engines, Patience(**{"pause": 0.05, **patience}), ranks)


async def nothing() -> None: ...


async def test_engines_sleep_while_ranks_compute_and_wake_with_what_these_send(servers, calls: list[str]) -> None:
    sync = fleet([await server.start() for server in servers], Ranks(calls, servers))
    await sync.rest()
    await sync.rest()
    assert calls == ["sleep"] * 2
    assert sync.serving == []
    calls.clear()
    await sync.publish(1)
    both = [call for name in ("update_weight_version", "wake kv_cache") for call in [name] * 2]
    assert calls[:5] == ["release memory", "wake weights", "wake weights", "open for 2", "send"]
    assert sorted(calls[5:]) == sorted(both)
    assert [(server.version, len(server.holds)) for server in servers] == [("1", 2)] * 2
    assert len(sync.serving) == 2
    calls.clear()
    await sync.rest()
    await sync.publish(2)
    assert "open for 2" not in calls
    assert [server.version for server in servers] == ["2", "2"]


async def test_from_the_volume_they_load_between_waking_and_serving(servers, calls: list[str], tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "7") as directory:
        (directory / "model.safetensors").touch()
    sync = fleet([await servers[0].start()], Ranks(calls, servers[:1]), tmp_path)
    assert sync.reads_files
    await sync.publish(7)
    around = ["update_weight_version", "wake kv_cache"]
    assert calls == ["sleep", "release memory", "wake weights", "load 7", *around]


async def test_what_is_half_awake_is_put_to_sleep_by_the_next_publisher(servers, calls: list[str]) -> None:
    url = await servers[0].start()
    servers[0].fail_on = "update_weight_version"
    with pytest.raises(EnginesGoneError, match=r"on the trainer's GPUs is lost: .*out of memory"):
        await fleet([url], Ranks(calls, servers[:1])).publish(1)
    servers[0].fail_on = ""
    await fleet([url], Ranks(calls, servers[:1])).publish(1)
    assert (servers[0].version, len(servers[0].holds)) == ("1", 2)


async def test_engines_that_are_still_starting_are_waited_for(servers, calls: list[str], unused_tcp_port: int) -> None:
    resting = asyncio.create_task(fleet([f"http://127.0.0.1:{unused_tcp_port}"], Ranks(calls)).rest())
    await asyncio.sleep(0.1)
    await servers[0].start(unused_tcp_port)
    await resting
    assert calls == ["sleep"]


async def test_one_that_never_starts_ends_the_life(calls: list[str], unused_tcp_port: int) -> None:
    with pytest.raises(EnginesGoneError, match=r"no engine has served for 0\.2 s: .*did not answer"):
        await fleet([f"http://127.0.0.1:{unused_tcp_port}"], Ranks(calls), gone=0.2).rest()


async def test_one_that_dies_ends_the_life_although_others_serve(servers, calls: list[str]) -> None:
    sync = fleet([await server.start() for server in servers], Ranks(calls, servers))
    await sync.publish(1)
    await servers[0].die()
    with pytest.raises(EnginesGoneError, match=r"on the trainer's GPUs is lost: .*did not answer"):
        await sync.watch(nothing)


async def test_one_that_sleeps_is_not_taken_for_lost(servers, calls: list[str]) -> None:
    sync = fleet([await servers[0].start()], Ranks(calls, servers[:1]))
    await sync.publish(1)
    await sync.rest()
    watching = asyncio.create_task(sync.watch(nothing))
    await asyncio.sleep(0.3)
    await sync.publish(2)
    await asyncio.sleep(0.3)
    assert not watching.done()
    watching.cancel()


@pytest.mark.parametrize("route", ["sleep", "wake_up", "update_weight_version"])
async def test_one_that_hangs_ends_the_life_at_the_deadline(servers, calls: list[str], route: str) -> None:
    servers[0].hang_on = route
    sync = fleet([await servers[0].start()], Ranks(calls, servers[:1]), update=0.2, gone=0.5)
    with pytest.raises((WeightSyncError, EnginesGoneError), match=r"within 0\.2 s"):
        await sync.publish(1)


async def test_ranks_that_hang_while_they_send_end_the_life_at_the_deadline(servers, calls: list[str]) -> None:
    ranks: Any = Ranks(calls, servers[:1])
    ranks.seconds = 60
    with pytest.raises(WeightSyncError, match=r"not handed over within 0\.3 s"):
        await fleet([await servers[0].start()], ranks, update=0.3).publish(1)
