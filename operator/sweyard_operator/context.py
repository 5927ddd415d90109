"""What every controller is given."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.execute import Executor
from sweyard_operator.metrics import Metrics
from sweyard_operator.resources import Resource
from sweyard_operator.settings import Settings
from sweyard_operator.work_queue import Key, WorkQueue


@dataclass(frozen=True, slots=True)
class Operator:
    """The parts of a running operator."""

    settings: Settings
    cluster: Cluster
    caches: Caches
    queue: WorkQueue
    executor: Executor
    metrics: Metrics
    clock: Callable[[], float]
    """Monotonic seconds."""
    is_leading: asyncio.Event = field(default_factory=asyncio.Event)


class Controller(Protocol):
    """Reconciles one kind. Its constructor takes an Operator and asks the caches for what it needs to see."""

    resource: Resource
    """The kind whose objects it owns."""

    async def reconcile(self, key: Key) -> float | None:
        """One pass over one object; seconds until the next look even without an event, or None."""
        ...
