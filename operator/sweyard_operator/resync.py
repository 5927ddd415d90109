"""Puts every object of our kinds into the queue now and then: the answer to any event that got lost."""

import asyncio
import logging
from collections.abc import Iterable

from sweyard_operator.context import Operator
from sweyard_operator.errors import OperatorError, log_level
from sweyard_operator.resources import Resource, name_of, namespace_of
from sweyard_operator.work_queue import Key

logger = logging.getLogger(__name__)


async def resync_forever(operator: Operator, resources: Iterable[Resource]) -> None:
    """List each kind every `settings.resync_seconds`, and first of all at once."""
    kinds = tuple(resources)
    while True:
        for resource in kinds:
            for namespace in operator.settings.namespaces or (None,):
                await _enqueue_all(operator, resource, namespace)
        await asyncio.sleep(operator.settings.resync_seconds)


async def _enqueue_all(operator: Operator, resource: Resource, namespace: str | None) -> None:
    try:
        items, _ = await operator.cluster.list(resource, namespace)
    except OperatorError as error:
        logger.log(log_level(error), "cannot list %s: %s", resource.plural, error)
        return
    for item in items:
        operator.queue.add(Key(resource.kind, namespace_of(item) or "", name_of(item)))
