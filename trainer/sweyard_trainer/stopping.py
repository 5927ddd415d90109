"""Stop: a wish to end soon, heeded where nothing is lost."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from sweyard_trainer.errors import StoppedError

T = TypeVar("T")


class Stop:
    """Asked for by a signal handler of the event loop; heeded by the main loop."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Safe to call more than once."""
        self._asked.set()

    def heed(self) -> None:
        """Raises StoppedError if it was asked for."""
        if self._asked.is_set():
            raise StoppedError("stopped as asked")

    async def or_else(self, work: Awaitable[T]) -> T:
        """`work`, cancelled with StoppedError when it is asked for: rollouts are done again, training never is."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise StoppedError("stopped as asked")
        finally:
            for pending in (task, asked):
                pending.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)
