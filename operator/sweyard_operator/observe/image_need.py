"""What the holders of a cache's pools ask for, from their demand."""

from sweyard_api.constants import DEMAND_KEY, LABEL_POOL
from sweyard_operator.caches import Caches
from sweyard_operator.observe.holders import parse_demand
from sweyard_operator.plan.demand import merge_demand
from sweyard_operator.resources import CONFIG_MAPS, ROLLOUT_POOLS, Manifest, name_of

_MAX_IMAGES = 100_000


def cache_of(pool: Manifest | None) -> str | None:
    """The ImageCache that a RolloutPool refers to."""
    return None if pool is None else pool["spec"].get("imageCacheRef")


def observe_wanted(caches: Caches, namespace: str, cache: str) -> tuple[str, ...]:
    """Images in order of need, each once, by the names that tasks know; what pools keep warm comes last."""
    demands: dict[str, tuple[str, ...]] = {}
    warm: list[tuple[str, int]] = []
    for pool in caches.within(ROLLOUT_POOLS, namespace):
        if cache_of(pool) != cache:
            continue
        warm += [(str(entry["image"]), 1) for entry in pool["spec"].get("warm") or () if entry.get("replicas")]
        for item in caches.labelled(CONFIG_MAPS, namespace, LABEL_POOL, name_of(pool)):
            if DEMAND_KEY in (item.get("data") or {}):
                demands[name_of(item)] = tuple(dict.fromkeys(parse_demand(item)))
    return tuple(dict.fromkeys(merge_demand(demands, warm, limit=_MAX_IMAGES)))
