"""The seam between the main loop and how weights travel."""

from typing import Protocol


class WeightSync(Protocol):
    """One way of bringing weights into engines."""

    async def publish(self, version: int) -> None:
        """Return once every engine has confirmed that it samples with `version`.

        Safe to repeat, also after a publisher that died half way: engines are never left paused by a repeat.
        Raises WeightSyncError naming the engine and what it said, at the latest when the deadline has passed.
        """
        ...
