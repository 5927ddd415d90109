"""RankGroup: the same call on every rank. In this process for one rank, in Ray actors for more."""

from collections.abc import Sequence
from typing import Any, Protocol


class RankGroup(Protocol):
    """All ranks of the learner."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...

    async def start(self) -> None:
        """Start the processes and their process group."""
        ...

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        """`method` of RankWorker on each rank with its own arguments; results in rank order.

        Raises RankDiedError if a rank is gone.
        """
        ...

    async def stop(self) -> None:
        """End the processes."""
        ...
