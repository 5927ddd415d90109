"""One pass over one RolloutPool."""

from sweyard_operator.context import Operator
from sweyard_operator.resources import ROLLOUT_POOLS
from sweyard_operator.work_queue import Key


class RolloutPoolController:
    """Keeps a pool's sandboxes."""

    resource = ROLLOUT_POOLS

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def reconcile(self, key: Key) -> float | None:
        """One pass."""
        return None
