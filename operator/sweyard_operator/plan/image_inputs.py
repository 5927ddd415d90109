"""From what nodes and reports say to what placement asks: budgets, sizes, and what is where."""

from collections.abc import Mapping

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.cache_agent.protocol import ImageState, NodeReport
from sweyard_operator.observe.image_cache import ObservedCache
from sweyard_operator.plan.image_layers import reported_sizes
from sweyard_operator.plan.placement import CacheImage, CacheNode
from sweyard_operator.plan.quantities import parse_quantity

MAX_DISK_SHARE = 0.75
"""Of a node's disk: the kubelet removes images from 80 or 85 percent on, and sandboxes write to the same disk."""


def plan_budgets(spec: ImageCacheSpec, observed: ObservedCache) -> dict[str, int]:
    """Bytes by node; one of unknown size without spec.diskBudget has none. Never by free disk: pulling changes it."""
    asked = None if spec.disk_budget is None else int(parse_quantity(spec.disk_budget))
    budgets = {}
    for node in observed.nodes:
        disk = observed.disk_bytes.get(node)
        limits = [limit for limit in (asked, None if disk is None else int(disk * MAX_DISK_SHARE)) if limit is not None]
        if limits:
            budgets[node] = min(limits)
    return budgets


def placement_inputs(
    observed: ObservedCache, reports: Mapping[str, NodeReport], budgets: Mapping[str, int]
) -> tuple[list[CacheImage], list[CacheNode]]:
    """Images in order of need, and nodes with what they hold and were told to hold."""
    reported = reported_sizes(observed.images, reports.values())
    # Agents that cannot ask the registry tell no layers: so a list with sizes goes before them.
    sizes = {**reported, **observed.sizes}
    nodes = [
        CacheNode(
            node,
            budget_bytes=budgets.get(node),
            held=_held(reports[node]) if node in reports else (),
            assigned=_assigned(observed, reports, node),
        )
        for node in observed.nodes
    ]
    return [CacheImage(image, *sizes.get(image, (None, 0))) for image in observed.images], nodes


def _assigned(observed: ObservedCache, reports: Mapping[str, NodeReport], node: str) -> tuple[str, ...]:
    told = observed.told.get(node)
    if told is not None and told.images:
        return told.images
    return tuple(reports[node].images) if node in reports else ()


def _held(report: NodeReport) -> tuple[str, ...]:
    """What is being pulled too: no agent breaks off a pull, so elsewhere it would be there twice."""
    return tuple(
        image for image, said in report.images.items() if said.state in (ImageState.CACHED, ImageState.PULLING)
    )
