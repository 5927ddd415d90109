"""Which checkpoint a life goes on from: the newest that can be read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import CheckpointDamagedError

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def load_newest(store: CheckpointStore, load: Callable[[str], Awaitable[T]]) -> T | None:
    """What `load` makes of it; None where there is no checkpoint.

    Damaged ones that are newer are removed once an older one is loaded: in their place the run makes others, and must
    not let go of good ones for them. A run whose checkpoints are all damaged does not begin anew by itself, since that
    may cost days: raises CheckpointDamagedError.
    """
    damaged: list[str] = []
    failures: list[CheckpointDamagedError] = []
    for saved in reversed(await asyncio.to_thread(store.complete)):
        try:
            loaded = await load(saved.name)
        except CheckpointDamagedError as error:
            logger.warning("%s: the one before it is tried", error)
            damaged.append(saved.name)
            failures.append(error)
            continue
        for name in damaged:
            await asyncio.to_thread(store.remove, name)
        return loaded
    if failures:
        raise CheckpointDamagedError(
            f"{failures[0]}, and none before it can be read: remove {store.root}, and the run begins anew"
        ) from failures[0]
    return None
