"""A run's Workload in Kueue, as far as Kueue is there: read at each pass, since a watch would need its kinds."""

from sweyard_operator.cluster import Cluster
from sweyard_operator.plan.admission import QueuedWorkload, flavor_names
from sweyard_operator.resources import PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS


async def observe_workload(cluster: Cluster, namespace: str, run: str, *, priority_class: str | None) -> QueuedWorkload:
    """The Workload of the run's name, and what it refers to."""
    workload = await cluster.find(WORKLOADS, namespace, run)
    found = {name: await cluster.find(RESOURCE_FLAVORS, None, name) for name in flavor_names(workload)}
    priority = await cluster.find(PRIORITY_CLASSES, None, priority_class) if priority_class else None
    return QueuedWorkload(
        workload=workload,
        flavors={name: flavor for name, flavor in found.items() if flavor is not None},
        priority=int(priority["value"]) if priority is not None else None,
    )
