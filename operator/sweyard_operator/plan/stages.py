"""Images and sandboxes: what stands between the config and the engines."""

from datetime import datetime

from sweyard_operator.build.image_cache import cache_name
from sweyard_operator.build.run_context import RunContext
from sweyard_operator.conditions import find_condition, parse_time
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import RefusalReason
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.stage import NOTHING_ATTEMPTED, Stage
from sweyard_operator.resources import Manifest

_POOL_UNPLACED = frozenset({"Unschedulable", *RefusalReason})
"""A pool's reasons for pods that have no node, or may not be made."""
POOL_STARTING = "SandboxesStarting"
"""A pool's reason while nothing is wrong: under a trainer, which uses sandboxes up as fast as they start, the usual."""


def plan_images(run: RunContext, snapshot: RunSnapshot) -> Stage:
    """ImagesReady: the cache's word, where there is a cache."""
    name, kind = cache_name(run), ConditionType.IMAGES_READY
    if not run.makes_attempts:
        return Stage(kind, True, Reason.NOT_NEEDED, NOTHING_ATTEMPTED)
    if name is None:
        missing = snapshot.missing_datasets()
        unknown = f"the images of data set {missing[0]}, which does not exist, are not known" if missing else None
        return Stage(kind, True, Reason.NOT_NEEDED, unknown or "the spec names no image")
    cache = snapshot.image_cache
    if cache is None:
        return _missing(kind, "ImageCache", name, is_shared=run.config.images.cache_ref is not None)
    ready, degraded = find_condition(cache.get("status"), "Ready"), find_condition(cache.get("status"), "Degraded")
    if ready.get("status") == "True":
        return Stage(kind, True, Reason.READY, f"ImageCache {name}: {ready.get('message', '')}")
    message = f"ImageCache {name}: {ready.get('message', 'has not reported yet')}"
    # Some images on their nodes are enough to begin with: an attempt whose image is missing is typed and retried.
    some = int((cache.get("status") or {}).get("cached") or 0) > 0
    if degraded.get("status") == "True":
        return Stage(
            kind, False, Reason.IMAGE_PULL, f"ImageCache {name}: {degraded.get('message', '')}", lets_start=some
        )
    return Stage(kind, False, Reason.PULLING, message + _told_bytes(cache))


def _told_bytes(cache: Manifest) -> str:
    """What has come so far, which moves while no image is whole yet."""
    num_bytes = int((cache.get("status") or {}).get("bytes") or 0)
    if num_bytes == 0:
        return ""
    told = f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
    return f" ({told} on disk)"


def plan_sandboxes(run: RunContext, snapshot: RunSnapshot) -> Stage:
    """SandboxesReady: the pool's word; a trainer at work waits for single sandboxes itself."""
    kind, pool = ConditionType.SANDBOXES_READY, snapshot.rollout_pool
    if not run.makes_attempts:
        return Stage(kind, True, Reason.NOT_NEEDED, NOTHING_ATTEMPTED)
    if not run.has_pool:
        return Stage(kind, True, Reason.NOT_NEEDED, f"sandboxes run by the {run.config.sandboxes.runtime} runtime")
    if pool is None:
        return _missing(kind, "RolloutPool", run.pool, is_shared=not run.owns_pool)
    ready = find_condition(pool.get("status"), "Ready")
    message = f"RolloutPool {run.pool}: {ready.get('message', 'has not reported yet')}"
    if ready.get("status") == "True" or (snapshot.jobs and ready.get("reason") == POOL_STARTING):
        return Stage(kind, True, Reason.READY, message)
    return Stage(kind, False, Reason.POOL_NOT_READY, message)


def pool_unplaced_since(run: RunContext, snapshot: RunSnapshot) -> datetime | None:
    """Since when the pool has been in trouble, if it is not ready since its pods have no place.

    Not since when it has not been ready: it is not while it starts.
    """
    if not run.has_pool or snapshot.rollout_pool is None:
        return None
    ready, degraded = (find_condition(snapshot.rollout_pool.get("status"), kind) for kind in ("Ready", "Degraded"))
    if ready.get("status") != "False" or ready.get("reason") not in _POOL_UNPLACED:
        return None
    return parse_time(degraded["lastTransitionTime"]) if degraded.get("status") == "True" else None


def _missing(kind: ConditionType, noun: str, name: str, *, is_shared: bool) -> Stage:
    if not is_shared:
        return Stage(kind, False, Reason.CREATING, f"{noun} {name} is being created")
    reason = Reason.CACHE_MISSING if kind == ConditionType.IMAGES_READY else Reason.POOL_MISSING
    return Stage(
        kind, False, reason, f"{noun} {name} does not exist in this namespace; create it or drop the reference"
    )
