"""Has as many engines serve as a run needs, and asks the operator for them by the run's status.

More are asked for at once, and serve when they are there and have the weights. Of what is too much, first no new reply
is begun there, then those under way are waited for, and only then is less asked for: no reply is lost by it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from sweyard_trainer.weight_sync.scaling import EngineCount

PERIOD_SECONDS = 10.0


class Engines(Protocol):
    """What a scaler needs of a fleet."""

    @property
    def num_serving(self) -> int:
        """Engines that serve now."""
        ...

    @property
    def most(self) -> int:
        """All that there may be."""
        ...

    def keep(self, count: int) -> None:
        """From now on the first `count` engines are to serve, and no others."""
        ...

    async def drain(self) -> None:
        """Return once those that are not to serve have ended their replies, or have had their time for it."""
        ...


class EngineScaler:
    """One run's."""

    def __init__(
        self,
        engines: Engines,
        count: EngineCount,
        *,
        num_attempts: Callable[[], int],
        switch: Callable[[int], Awaitable[None]],
        ask_for: Callable[[int], None],
    ) -> None:
        """`switch` has new replies begin at the first so many engines alone; `ask_for` tells the operator."""
        self._engines = engines
        self._count = count
        self._num_attempts = num_attempts
        self._switch = switch
        self._ask_for = ask_for

    async def run(self) -> None:
        """Until cancelled."""
        self._engines.keep(self._count.engines)
        self._ask_for(self._count.engines)
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            before = self._count.engines
            self._count = self._count.heard(self._num_attempts(), asyncio.get_running_loop().time())
            if self._count.engines != before:
                await self._change_to(self._count.engines, is_less=self._count.engines < before)

    async def _change_to(self, count: int, *, is_less: bool) -> None:
        self._engines.keep(count)
        await self._switch(count)
        if is_less:
            await self._engines.drain()
        self._ask_for(count)
