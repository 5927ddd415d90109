"""Which nodes have been lost, of those that owe the end of a pod."""

from collections.abc import Iterable

from sweyard_operator.cluster import Cluster
from sweyard_operator.resources import NODES


async def find_lost_nodes(cluster: Cluster, names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that are gone or not Ready. Few are ever asked about, so each is simply read."""
    return frozenset([name for name in sorted(set(names)) if await _is_lost(cluster, name)])


async def _is_lost(cluster: Cluster, name: str) -> bool:
    node = await cluster.find(NODES, None, name)
    if node is None:
        return True
    conditions = (node.get("status") or {}).get("conditions") or ()
    return not any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
