"""The queue's promises, in virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from sweyard_operator.testing.virtual_time import VirtualTimeLoop, run_in_virtual_time
from sweyard_operator.work_queue import Key, Reconcile, WorkQueue

A, B = Key("Pool", "ns", "a"), Key("Pool", "ns", "b")


class Work:
    """What passes have computed so far, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds


def play(
    reconcile: Reconcile, story: Callable[[WorkQueue], Coroutine[Any, Any, None]], work: Work | None = None
) -> None:
    async def main() -> None:
        queue = WorkQueue(randomness=random.Random(0), work_clock=(work or Work()).clock)
        worker = asyncio.create_task(queue.run(reconcile, num_workers=4, on_pass=lambda key, waited, computed: None))
        await story(queue)
        worker.cancel()

    run_in_virtual_time(main())


def test_the_wait_for_a_worker_is_told_without_the_wait_for_the_moment() -> None:
    waits: list[float] = []

    async def reconcile(key: Key) -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        queue = WorkQueue(randomness=random.Random(0), work_clock=Work().clock)

        def told(key: Key, waited: float, computed: float) -> None:
            waits.append(waited)

        worker = asyncio.create_task(queue.run(reconcile, num_workers=1, on_pass=told))
        queue.add(A)
        queue.add(B, after_seconds=4)
        await asyncio.sleep(25)
        worker.cancel()

    run_in_virtual_time(main())
    assert waits == [pytest.approx(0, abs=0.01), pytest.approx(6, abs=0.01)]


def test_equal_keys_coalesce() -> None:
    passes: list[Key] = []

    async def reconcile(key: Key) -> None:
        passes.append(key)

    async def story(queue: WorkQueue) -> None:
        for _ in range(100):
            queue.add(A)
            queue.add(B)
        await asyncio.sleep(10)

    play(reconcile, story)
    assert sorted(passes) == [A, B]


def test_one_worker_a_key_and_one_more_pass_for_what_came_meanwhile() -> None:
    at_work, most, passes = 0, 0, 0

    async def reconcile(key: Key) -> None:
        nonlocal at_work, most, passes
        at_work, passes = at_work + 1, passes + 1
        most = max(most, at_work)
        await asyncio.sleep(1)
        at_work -= 1

    async def story(queue: WorkQueue) -> None:
        for _ in range(20):
            queue.add(A)
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)

    play(reconcile, story)
    assert (most, passes) == (1, 2)


def test_a_storm_of_events_costs_few_passes() -> None:
    passes = 0

    async def reconcile(key: Key) -> None:
        nonlocal passes
        passes += 1

    async def story(queue: WorkQueue) -> None:
        for _ in range(5_000):
            queue.add(A)
            await asyncio.sleep(0.0002)

    play(reconcile, story)
    assert passes <= 12


def test_failures_come_back_with_growing_pauses_and_stop_nobody_else() -> None:
    times: dict[Key, list[float]] = {A: [], B: []}

    async def reconcile(key: Key) -> float:
        times[key].append(asyncio.get_running_loop().time())
        if key == A:
            raise ZeroDivisionError
        return 10.0

    async def story(queue: WorkQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(300)
        assert queue.failing().keys() == {A}

    play(reconcile, story)
    pauses = [later - earlier for earlier, later in zip(times[A], times[A][1:], strict=False)]
    assert pauses[0] < 1.0
    assert pauses[3] > 2.5
    assert max(pauses) <= 75.0
    assert len(times[A]) >= 8
    assert len(times[B]) >= 30


def test_success_forgets_the_failures_before_it() -> None:
    outcomes = iter([True, True, True, False] * 2)
    times: list[float] = []

    async def reconcile(key: Key) -> float | None:
        times.append(asyncio.get_running_loop().time())
        if next(outcomes, None):
            raise ZeroDivisionError
        return 1.0 if len(times) < 8 else None

    async def story(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(100)

    play(reconcile, story)
    assert len(times) == 8
    assert times[5] - times[4] < 1.0


@pytest.mark.parametrize(("first", "second", "expected"), [(50.0, 5.0, 5.0), (5.0, 50.0, 5.0)])
def test_the_earliest_wish_wins(first: float, second: float, expected: float) -> None:
    times: list[float] = []

    async def reconcile(key: Key) -> None:
        times.append(asyncio.get_running_loop().time())

    async def story(queue: WorkQueue) -> None:
        started = asyncio.get_running_loop().time()
        queue.add(A, first)
        queue.add(A, second)
        await asyncio.sleep(100)
        assert [moment - started for moment in times] == pytest.approx([expected])

    play(reconcile, story)


def test_a_stuck_pass_shows() -> None:
    async def reconcile(key: Key) -> None:
        await asyncio.sleep(10_000)

    async def story(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(700)
        assert queue.longest_pass_seconds() == pytest.approx(700)

    play(reconcile, story)


@pytest.mark.parametrize(
    ("computed_seconds", "least_gap_seconds", "largest_gap_seconds"),
    [
        pytest.param(0.5, 9.5, 11.0, id="it computes"),
        pytest.param(0.0, 0.5, 0.7, id="a busy machine serves others"),
    ],
)
def test_the_more_a_pass_computes_the_rarer_it_is(
    computed_seconds: float, least_gap_seconds: float, largest_gap_seconds: float
) -> None:
    starts: list[float] = []
    work = Work()

    async def reconcile(key: Key) -> None:
        starts.append(asyncio.get_running_loop().time())
        # Both ways the loop's clock goes on, and nobody else was served.
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.advance(0.5)
        work.seconds += computed_seconds

    async def story(queue: WorkQueue) -> None:
        for _ in range(6_000):
            queue.add(A)
            await asyncio.sleep(0.01)

    play(reconcile, story, work)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert least_gap_seconds <= min(gaps)
    assert max(gaps) <= largest_gap_seconds


def test_waiting_for_answers_makes_no_pass_rarer() -> None:
    starts: list[float] = []

    async def reconcile(key: Key) -> None:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(2.0)

    async def story(queue: WorkQueue) -> None:
        for _ in range(1_000):
            queue.add(A)
            await asyncio.sleep(0.02)

    play(reconcile, story)
    assert len(starts) >= 9
