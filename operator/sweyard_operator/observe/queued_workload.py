"""A run's Workload in Kueue, as far as Kueue is there: read at each pass, since a watch would need its kinds."""

from collections.abc import Mapping
from typing import Any

from sweyard_operator.cluster import Cluster
from sweyard_operator.errors import NotFoundError
from sweyard_operator.plan.admission import QueuedWorkload
from sweyard_operator.plan.pod_set_choices import flavor_names
from sweyard_operator.plan.queue_priority import QueuePriority, named_class
from sweyard_operator.resources import RESOURCE_FLAVORS, WORKLOADS


async def observe_workload(cluster: Cluster, namespace: str, run: str, spec: Mapping[str, Any]) -> QueuedWorkload:
    """The Workload of the run's name, and what it and the run's spec refer to."""
    workload = await cluster.find(WORKLOADS, namespace, run)
    found = {name: await cluster.find(RESOURCE_FLAVORS, None, name) for name in flavor_names(workload)}
    return QueuedWorkload(
        workload=workload,
        flavors={name: flavor for name, flavor in found.items() if flavor is not None},
        priority=await _observe_priority(cluster, spec) if workload is None else None,
    )


async def _observe_priority(cluster: Cluster, spec: Mapping[str, Any]) -> QueuePriority | None:
    """What a new Workload is to have; of a class whose kind nobody serves the Workload, as little known, is to tell."""
    named = named_class(spec)
    if named is None:
        return None
    try:
        found = await cluster.get(named[0], None, named[1])
    except NotFoundError as error:
        return None if error.is_unserved else QueuePriority(*named, value=None)
    return QueuePriority(*named, value=int(found["value"]))
