"""Stop: a wish or a need to end soon, heeded where nothing is lost."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.errors import StoppedError

T = TypeVar("T")


class Stop:
    """Asked for by a signal handler of the event loop; heeded by the main loop."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._why: SweyardError = StoppedError("stopped as asked")

    def ask(self, because: SweyardError | None = None) -> None:
        """Safe to call more than once. `because` is what to raise instead of StoppedError."""
        self._why = because or self._why
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def heed(self) -> None:
        """Raises StoppedError, or the cause that was given, if it was asked for."""
        if self.is_asked:
            raise self._why

    async def or_else(self, work: Awaitable[T]) -> T:
        """`work`, cancelled as `heed` says when it is asked for: rollouts are done again, training never is."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise self._why
        finally:
            for pending in (task, asked):
                pending.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)
