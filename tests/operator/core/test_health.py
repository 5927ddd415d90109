"""What makes an operator unwell, and what does not."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sweyard_operator.context import Operator
from sweyard_operator.http_endpoints import find_troubles
from sweyard_operator.resources import ROLLOUT_POOLS
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_operator.work_queue import Key


class Sleeper:
    """Its passes never end."""

    resource = ROLLOUT_POOLS

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def reconcile(self, key: Key) -> float | None:
        await asyncio.sleep(100_000)
        return None


def play(story: Callable[[Operator, FakeApiServer], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        api = FakeApiServer()
        process = OperatorProcess(api, lambda operator: [Sleeper(operator)])
        operator = await process.start()
        await asyncio.sleep(5)
        await story(operator, api)
        await process.kill()

    run_in_virtual_time(main())


def test_an_idle_operator_is_well() -> None:
    async def story(operator: Operator, api: FakeApiServer) -> None:
        for _ in range(100):
            await asyncio.sleep(60)
            assert find_troubles(operator) == []

    play(story)


def test_an_api_server_that_is_away_is_no_reason_to_restart() -> None:
    async def story(operator: Operator, api: FakeApiServer) -> None:
        api.lies.is_down = True
        for _ in range(60):
            await asyncio.sleep(60)
            assert find_troubles(operator) == []

    play(story)


def test_a_watch_that_stays_dead_while_requests_work_is() -> None:
    async def story(operator: Operator, api: FakeApiServer) -> None:
        api.lies.deaf_watches, api.lies.unlistable = True, frozenset({"rolloutpools"})
        await asyncio.sleep(300)
        assert ["has been silent" in trouble for trouble in find_troubles(operator)] == [True]

    play(story)


def test_a_stuck_pass_is() -> None:
    async def story(operator: Operator, api: FakeApiServer) -> None:
        operator.queue.add(Key("RolloutPool", "ns", "pool"))
        await asyncio.sleep(700)
        assert ["a pass has been at work" in trouble for trouble in find_troubles(operator)] == [True]

    play(story)
