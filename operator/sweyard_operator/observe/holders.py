"""Who uses a pool: Leases, demand and claims joined by the Lease's name."""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from sweyard_api.constants import DEMAND_KEY, LABEL_POOL
from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.errors import NotFoundError
from sweyard_operator.observe.pool_memory import PoolMemory
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.plan.pool_state import Holder
from sweyard_operator.resources import CONFIG_MAPS, LEASES, Manifest, name_of

logger = logging.getLogger(__name__)

_MISSING_GRACE_SECONDS = 15.0
"""A claim or a demand may be heard of before its Lease is."""
_DEFAULT_DURATION_SECONDS = 60.0
_MAX_DEMAND = 100_000
_MAX_NAME = 512
"""Characters of an image's name, as in spec.warm."""


async def observe_holders(
    cluster: Cluster, caches: Caches, memory: PoolMemory, *, namespace: str, pool: str, claimed_by: set[str], now: float
) -> tuple[Holder, ...]:
    """Every holder that has a Lease, a demand or a sandbox. `now` is monotonic seconds.

    Before a holder is called lapsed or gone, its Lease is read from the API server itself: a cache may be deaf.
    """
    leases = {name_of(lease): lease for lease in caches.labelled(LEASES, namespace, LABEL_POOL, pool)}
    demands = {name_of(item): item for item in caches.labelled(CONFIG_MAPS, namespace, LABEL_POOL, pool)}
    demands = {name: item for name, item in demands.items() if DEMAND_KEY in (item.get("data") or {})}
    names = claimed_by | set(leases) | set(demands)
    memory.leases.hear_outages(cluster.contact.outages, now)
    memory.leases.keep_only(names)
    memory.fenced &= names
    holders = []
    for name in sorted(names):
        lease = await _confirm(cluster, memory, namespace, name, leases.get(name), now)
        holders.append(_judge(memory, namespace, name, lease, demands.get(name), now))
    return tuple(holders)


async def _confirm(
    cluster: Cluster, memory: PoolMemory, namespace: str, name: str, lease: Manifest | None, now: float
) -> Manifest | None:
    """The Lease, read anew if by the cache its holder would be given up."""
    memory.leases.hear(name, lease_edition(lease), now)
    if memory.leases.silent_seconds(name, now) < _patience_seconds(lease):
        return lease
    try:
        lease = await cluster.get(LEASES, namespace, name)
    except NotFoundError:
        return None
    memory.leases.hear(name, lease_edition(lease), now)
    return lease


def _judge(
    memory: PoolMemory, namespace: str, name: str, lease: Manifest | None, demand: Manifest | None, now: float
) -> Holder:
    silent_seconds = memory.leases.silent_seconds(name, now)
    seconds_left = _patience_seconds(lease) - silent_seconds
    if lease is None:
        if seconds_left <= 0.0 or name in memory.fenced:
            return Holder(name, "gone", deletions=_demand_deletions(namespace, demand))
        return Holder(name, "alive", seconds_left=seconds_left)
    if seconds_left <= 0.0:
        metadata = lease["metadata"]
        deletion = Deletion(LEASES, namespace, name, metadata["uid"], metadata["resourceVersion"])
        return Holder(name, "lapsed", deletions=(deletion,))
    memory.fenced.discard(name)
    return Holder(name, "alive", demand=parse_demand(demand), seconds_left=seconds_left)


def _demand_deletions(namespace: str, demand: Manifest | None) -> tuple[Deletion, ...]:
    if demand is None:
        return ()
    metadata = demand["metadata"]
    return (Deletion(CONFIG_MAPS, namespace, metadata["name"], metadata["uid"], metadata["resourceVersion"]),)


def lease_edition(lease: Manifest | None) -> str | None:
    """Changes with a renewal, and not when somebody else touches the Lease."""
    if lease is None:
        return None
    spec: Mapping[str, Any] = lease.get("spec") or {}
    return f"{lease['metadata']['uid']}/{spec.get('holderIdentity')}/{spec.get('renewTime')}"


def _patience_seconds(lease: Manifest | None) -> float:
    if lease is None:
        return _MISSING_GRACE_SECONDS
    return float((lease.get("spec") or {}).get("leaseDurationSeconds") or _DEFAULT_DURATION_SECONDS)


def parse_demand(demand: Manifest | None) -> tuple[str, ...]:
    """Images in order of need; what cannot be read counts as none, and is logged, since it is a client's text."""
    if demand is None:
        return ()
    try:
        images: Iterable[Any] = json.loads(demand["data"][DEMAND_KEY])["images"]
        return tuple(image for image in list(images)[:_MAX_DEMAND] if _is_name(image))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("unreadable demand: %r", error, extra={"object": name_of(demand)})
        return ()


def _is_name(image: Any) -> bool:
    """Text that a pod keeps as it is, else no pod is ever what was asked for; the rest is for a kubelet to judge."""
    return isinstance(image, str) and 0 < len(image) <= _MAX_NAME and image.isprintable()
