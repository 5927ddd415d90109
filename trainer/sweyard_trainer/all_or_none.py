"""Work that is done as a whole: nothing of it goes on once its waiter has gone, or a part has failed."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_or_none(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; or the first failure, and what else was under way has ended by then."""
    tasks = [asyncio.create_task(part) for part in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel them and wait until they have given back what they held."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
