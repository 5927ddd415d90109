"""Engines that come and go with the load: none is asked for too late, and no reply is lost to one that goes."""

import asyncio
from dataclasses import dataclass

import pytest
from tests.trainer.weight_sync.test_fleet import PATIENCE, ScriptedEngine

from sweyard_api.inference import EngineScaling
from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_trainer.weight_sync.scaler import EngineScaler
from sweyard_trainer.weight_sync.scaling import EngineCount
from sweyard_trainer.weight_sync.scaling_fleet import ScalingFleet

SCALING = EngineScaling(attempts_per_engine=10, scale_down_after_seconds=60)


@dataclass
class PausingEngine(ScriptedEngine):
    """Ends its replies in so many seconds."""

    reply_seconds: float = 0.0
    is_paused: bool = False

    async def pause(self) -> None:
        await asyncio.sleep(self.reply_seconds)
        self.is_paused = True

    async def update(self, version: int) -> None:
        await super().update(version)
        self.is_paused = False


class World:
    """A run with three engines at the most, and what was done to them, in order."""

    def __init__(self, *, present: int) -> None:
        self.engines = [PausingEngine(f"e{number}", dead=number >= present) for number in range(3)]
        self.fleet = ScalingFleet(self.engines, PATIENCE)
        self.attempts = 0
        self.deeds: list[str] = []

    async def begin(self) -> None:
        """As a life does once it has published its first weights."""
        await self.fleet.publish(1)
        now = asyncio.get_running_loop().time()
        count = EngineCount.beginning(SCALING, most=self.fleet.most, serving=self.fleet.num_serving, now=now)
        scaler = EngineScaler(
            self.fleet, count, num_attempts=lambda: self.attempts, switch=self.switch, ask_for=self.ask_for
        )
        self.tasks = [asyncio.create_task(self.fleet.watch(self.changed)), asyncio.create_task(scaler.run())]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def changed(self) -> None:
        self.deeds.append(f"serving {', '.join(self.fleet.serving)}")

    async def switch(self, count: int) -> None:
        self.deeds.append(f"replies begin at {count}")

    def ask_for(self, count: int) -> None:
        paused = [engine.name for engine in self.engines if engine.is_paused]
        self.deeds.append(f"ask for {count}" + (f", {', '.join(paused)} without work" if paused else ""))


def test_more_load_asks_for_more_engines_at_once_and_uses_them_when_they_are_there() -> None:
    async def main() -> None:
        world = World(present=1)
        await world.begin()
        world.attempts = 25
        await asyncio.sleep(30)
        assert world.deeds == ["ask for 1", "replies begin at 3", "ask for 3"]
        world.engines[2].come_back()
        await asyncio.sleep(60)
        assert world.deeds[3:] == ["serving e0, e2"]
        await world.end()

    run_in_virtual_time(main())


@pytest.mark.parametrize("reply_seconds", [0.0, 50.0])
def test_an_engine_goes_once_it_has_ended_its_replies(reply_seconds: float) -> None:
    async def main() -> None:
        world = World(present=3)
        world.engines[2].reply_seconds = reply_seconds
        await world.begin()
        world.attempts = 12
        await asyncio.sleep(200)
        assert world.deeds == ["ask for 3", "replies begin at 2", "ask for 2, e2 without work"]
        assert world.fleet.serving == ["e0", "e1"]
        await world.fleet.publish(2)
        assert [engine.weights for engine in world.engines] == ["2", "2", "1"]
        world.attempts = 30
        await asyncio.sleep(60)
        assert world.fleet.serving == ["e0", "e1", "e2"], "it was not gone yet"
        assert (world.engines[2].weights, world.engines[2].is_paused) == ("2", False)
        await world.end()

    run_in_virtual_time(main())


def test_an_engine_that_does_not_end_its_replies_goes_after_the_time_of_an_update() -> None:
    async def main() -> None:
        world = World(present=2)
        world.engines[1].reply_seconds = 1e9
        await world.begin()
        await asyncio.sleep(60 + PATIENCE.update + 30)
        assert world.deeds == ["ask for 2", "replies begin at 1", "ask for 1"]
        await world.end()

    run_in_virtual_time(main())
