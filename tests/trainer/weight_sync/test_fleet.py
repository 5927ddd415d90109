"""Engines that die, hang, answer late or confirm the wrong version, in a time that jumps."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_trainer.errors import EngineAwayError, EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.patience import Patience

PATIENCE = Patience(update=90, confirm=20, probe=10, pause=5, gone=300, misses=3)
STAGES_SECONDS = PATIENCE.update + PATIENCE.confirm + PATIENCE.probe
"""Longest that one engine may hold up a publication."""


@dataclass
class ScriptedEngine:
    """An engine with its troubles."""

    name: str
    weights: str = "default"
    dead: bool = False
    hangs_in: set[str] = field(default_factory=set)
    """Of `update` and `answer`."""
    refuses: bool = False
    stubborn: bool = False
    """Says that it loads, and does not."""
    late_seconds: float = 1.0
    said: list[str] = field(default_factory=list)

    async def update(self, version: int) -> None:
        await self._be_there("update")
        if self.refuses:
            raise WeightSyncError(f"{self.name} answered 500: weights do not fit")
        self.weights = self.weights if self.stubborn else str(version)

    async def served_version(self) -> str:
        await self._be_there("answer")
        self.said.append(self.weights)
        return self.weights

    def come_back(self) -> None:
        """Started again: with the weights of the image."""
        self.dead, self.weights = False, "default"
        self.hangs_in = set()

    async def _be_there(self, what: str) -> None:
        if what in self.hangs_in:
            await asyncio.sleep(1e9)
        await asyncio.sleep(self.late_seconds)
        if self.dead:
            raise EngineAwayError(f"{self.name} did not answer: connection refused")


def now() -> float:
    return asyncio.get_running_loop().time()


class Watched:
    """A fleet under watch; counts what its watch says."""

    def __init__(self, *engines: ScriptedEngine) -> None:
        self.fleet = Fleet(engines, PATIENCE)
        self.serving_when_told: list[list[str]] = []

    async def __aenter__(self) -> "Watched":
        self.task = asyncio.create_task(self.fleet.watch(self._told))
        return self

    async def __aexit__(self, *reason: Any) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _told(self) -> None:
        self.serving_when_told.append(self.fleet.serving)


Trouble = Callable[[ScriptedEngine], None]
TROUBLES: dict[str, tuple[Trouble, str]] = {
    "dead": (lambda engine: setattr(engine, "dead", True), "connection refused"),
    "hangs while loading": (lambda engine: engine.hangs_in.add("update"), "did not load weights 2 within 90 s"),
    "hangs while confirming": (lambda engine: engine.hangs_in.add("answer"), "did not confirm weights 2 within 20 s"),
    "confirms the wrong version": (
        lambda engine: setattr(engine, "stubborn", True),
        "serves weights 1 after",
    ),
    "refuses": (lambda engine: setattr(engine, "refuses", True), "500: weights do not fit"),
    "too late": (lambda engine: setattr(engine, "late_seconds", 95.0), "did not load weights 2 within 90 s"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_engine_in_trouble_leaves_and_the_run_goes_on_in_bounded_time(trouble: str) -> None:
    async def main() -> None:
        good, bad = ScriptedEngine("good"), ScriptedEngine("bad")
        fleet = Fleet([good, bad], PATIENCE)
        await fleet.publish(1)
        assert fleet.serving == ["good", "bad"]
        cause, words = TROUBLES[trouble]
        cause(bad)
        began = now()
        await fleet.publish(2)
        assert now() - began <= STAGES_SECONDS
        assert (fleet.serving, good.weights) == (["good"], "2")
        assert words in str(fleet._members[1].why)
        began = now()
        await fleet.publish(3)
        assert now() - began < 5, "nobody waits for it a second time"

    run_in_virtual_time(main())


def test_a_late_engine_within_its_deadline_is_waited_for() -> None:
    async def main() -> None:
        fleet = Fleet([ScriptedEngine("a"), ScriptedEngine("slow", late_seconds=19.0)], PATIENCE)
        await fleet.publish(1)
        assert fleet.serving == ["a", "slow"]

    run_in_virtual_time(main())


@pytest.mark.parametrize("trouble", [trouble for trouble in TROUBLES if trouble != "refuses"])
def test_an_engine_that_left_is_brought_back_with_the_version_of_that_moment(trouble: str) -> None:
    async def main() -> None:
        good, bad = ScriptedEngine("good"), ScriptedEngine("bad")
        async with Watched(good, bad) as watched:
            await watched.fleet.publish(1)
            TROUBLES[trouble][0](bad)
            await watched.fleet.publish(2)
            await watched.fleet.publish(3)
            bad.come_back()
            bad.stubborn, bad.late_seconds = False, 1.0
            await asyncio.sleep(STAGES_SECONDS + 2 * PATIENCE.pause)
            assert watched.fleet.serving == ["good", "bad"]
            assert bad.weights == "3"
            assert watched.serving_when_told[-1] == ["good", "bad"]

    run_in_virtual_time(main())


def test_an_engine_that_was_started_again_unseen_is_given_the_weights_anew() -> None:
    async def main() -> None:
        good, other = ScriptedEngine("good"), ScriptedEngine("other")
        async with Watched(good, other) as watched:
            await watched.fleet.publish(1)
            other.come_back()
            await asyncio.sleep(4 * PATIENCE.pause)
            assert watched.serving_when_told == [["good"], ["good", "other"]]
            assert other.weights == "1"

    run_in_virtual_time(main())


def test_one_look_without_an_answer_is_forgiven_and_three_are_not() -> None:
    async def main() -> None:
        engine = ScriptedEngine("a")
        async with Watched(engine) as watched:
            await watched.fleet.publish(1)
            engine.dead = True
            await asyncio.sleep(PATIENCE.pause + 2)
            engine.dead = False
            await asyncio.sleep(10 * PATIENCE.pause)
            assert watched.serving_when_told == []
            engine.dead = True
            await asyncio.sleep(4 * PATIENCE.pause)
            assert watched.serving_when_told == [[]]

    run_in_virtual_time(main())


def test_a_version_published_while_an_engine_returns_is_loaded_too() -> None:
    async def main() -> None:
        good, other = ScriptedEngine("good"), ScriptedEngine("other", dead=True)
        async with Watched(good, other) as watched:
            await watched.fleet.publish(1)
            other.come_back()
            other.late_seconds = 10.0
            await asyncio.sleep(PATIENCE.pause + 2)
            await watched.fleet.publish(2)
            await asyncio.sleep(60)
            assert (watched.fleet.serving, other.weights) == (["good", "other"], "2")

    run_in_virtual_time(main())


async def failure_of(work: Awaitable[None]) -> tuple[Exception, float]:
    began = now()
    try:
        await work
    except (WeightSyncError, EnginesGoneError) as error:
        return error, now() - began
    raise AssertionError("it ended well")


@pytest.mark.parametrize("trouble", ["dead", "hangs while loading", "hangs while confirming"])
def test_a_publication_without_any_engine_ends_typed_after_the_stated_time(trouble: str) -> None:
    async def main() -> None:
        engines = [ScriptedEngine("a"), ScriptedEngine("b")]
        fleet = Fleet(engines, PATIENCE)
        for engine in engines:
            TROUBLES[trouble][0](engine)
        error, seconds = await failure_of(fleet.publish(2))
        assert isinstance(error, EnginesGoneError)
        assert "no engine has served for 300 s: a " in str(error)
        assert PATIENCE.gone <= seconds <= PATIENCE.gone + STAGES_SECONDS + PATIENCE.pause

    run_in_virtual_time(main())


def test_engines_that_all_refuse_end_it_at_once_in_their_words() -> None:
    async def main() -> None:
        fleet = Fleet([ScriptedEngine("a", refuses=True)], PATIENCE)
        error, seconds = await failure_of(fleet.publish(1))
        assert "a answered 500: weights do not fit" in str(error)
        assert seconds < 10

    run_in_virtual_time(main())


def test_a_watch_without_any_engine_ends_typed_and_an_engine_in_time_saves_it() -> None:
    async def main() -> None:
        engine = ScriptedEngine("a")
        async with Watched(engine) as watched:
            await watched.fleet.publish(1)
            served_since = now()
            await asyncio.sleep(PATIENCE.gone)
            assert watched.fleet.absent_at <= served_since
            engine.dead = True
            await asyncio.sleep(PATIENCE.gone)
            assert now() - watched.fleet.absent_at <= PATIENCE.pause
            engine.come_back()
            came_back = now()
            await asyncio.sleep(2 * PATIENCE.gone)
            assert (watched.fleet.serving, engine.weights) == (["a"], "1")
            assert abs(watched.fleet.absent_at - came_back) <= STAGES_SECONDS + PATIENCE.pause
            engine.dead = True
            began = now()
            with pytest.raises(EnginesGoneError, match="no engine has served for 300 s"):
                await watched.task
            assert now() - began >= PATIENCE.gone

    run_in_virtual_time(main())


def test_without_servers_there_is_nobody_to_tell_and_nobody_to_miss() -> None:
    async def main() -> None:
        async with Watched() as watched:
            await watched.fleet.publish(1)
            await asyncio.sleep(10 * PATIENCE.gone)
            assert not watched.task.done()
            assert watched.fleet.absent_at == -math.inf

    run_in_virtual_time(main())


moments = st.floats(0, 400)
events = st.lists(st.tuples(moments, st.integers(1, 3), st.sampled_from([*TROUBLES, "comes back"])), max_size=12)


@given(events=events, gaps=st.lists(st.floats(0, 120), min_size=1, max_size=6))
def test_whatever_happens_who_serves_has_confirmed_the_last_version_and_all_return(
    events: list[tuple[float, int, str]], gaps: list[float]
) -> None:
    """Engine 0 is always well, so the run must never stop."""

    async def happen(engines: list[ScriptedEngine]) -> None:
        began = now()
        for moment, index, what in sorted(events):
            await asyncio.sleep(max(0.0, began + moment - now()))
            engine = engines[index]
            engine.come_back() if what == "comes back" else TROUBLES[what][0](engine)

    async def main() -> None:
        engines = [ScriptedEngine(str(number)) for number in range(4)]
        by_name = {engine.name: engine for engine in engines}
        async with Watched(*engines) as watched:
            script = asyncio.create_task(happen(engines))
            for version, gap in enumerate(gaps, start=1):
                began = now()
                await watched.fleet.publish(version)
                assert now() - began <= STAGES_SECONDS
                assert "0" in watched.fleet.serving
                assert all(by_name[name].said[-1] == str(version) for name in watched.fleet.serving)
                await asyncio.sleep(gap)
            await script
            for engine in engines:
                engine.come_back()
                engine.refuses = engine.stubborn = False
                engine.late_seconds = 1.0
            await asyncio.sleep(2 * STAGES_SECONDS + 10 * PATIENCE.pause)
            assert watched.fleet.serving == ["0", "1", "2", "3"]
            assert {engine.weights for engine in engines} == {str(len(gaps))}
            assert not watched.task.done()

    run_in_virtual_time(main())
