"""One pass over one RolloutPool: observe, plan, execute, remember."""

import logging
from collections import Counter
from dataclasses import replace

from pydantic import ValidationError

from sweyard_api.constants import ANNOTATION_IMAGE, LABEL_CACHE, LABEL_COMPONENT, LABEL_POOL
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.conditions import Condition, merge_conditions
from sweyard_operator.context import Operator
from sweyard_operator.errors import NotFoundError
from sweyard_operator.execute import is_shown
from sweyard_operator.observe.holders import lease_edition, observe_holders
from sweyard_operator.observe.pool_memory import PoolMemory
from sweyard_operator.observe.rollout_pool import observe_pool
from sweyard_operator.observe.sandbox_pods import container_image
from sweyard_operator.plan.plan import Outcome, Plan
from sweyard_operator.plan.pool_state import ObservedPool, PoolPlan
from sweyard_operator.plan.rollout_pool import plan_rollout_pool
from sweyard_operator.plan.slots import parse_slot
from sweyard_operator.plan.stage_times import passed_stages
from sweyard_operator.resources import (
    CONFIG_MAPS,
    IMAGE_CACHES,
    LEASES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    ROLLOUT_POOLS,
    Manifest,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
)
from sweyard_operator.work_queue import Key

logger = logging.getLogger(__name__)

_STATUS_GAP_SECONDS = 1.0
"""Least time between two status writes that differ in counts alone."""
_BLOCKED_SECONDS = 30.0
_STATES = ("ready", "claimed", "starting", "terminating")
_AGAIN_SECONDS = 0.5


class RolloutPoolController:
    """Keeps each pool's sandboxes as its plan says."""

    resource = ROLLOUT_POOLS

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._memories: dict[Key, PoolMemory] = {}
        caches = operator.caches
        caches.watch(PODS, LABEL_COMPONENT, self._hear_pod)
        caches.watch(LEASES, LABEL_POOL, self._hear_lease)
        caches.watch(CONFIG_MAPS, LABEL_POOL, self._hear_other)
        caches.watch(NETWORK_POLICIES, LABEL_COMPONENT, self._hear_other)
        caches.watch(IMAGE_CACHES, "")
        caches.watch(NODES, "")
        for resource in (CONFIG_MAPS, PODS):
            caches.watch(resource, LABEL_CACHE)

    async def reconcile(self, key: Key) -> float | None:
        """One pass; seconds until the next look."""
        try:
            owner = await self._operator.cluster.get(ROLLOUT_POOLS, key.namespace, key.name)
        except NotFoundError:
            return await self._clean_up_after(key)
        if owner["metadata"].get("deletionTimestamp"):
            return None
        try:
            spec = RolloutPoolSpec.model_validate(owner["spec"])
        except ValidationError as error:
            await self._refuse(owner, error)
            return None
        return await self._pass(key, owner, spec)

    async def _pass(self, key: Key, owner: Manifest, spec: RolloutPoolSpec) -> float | None:
        memory = self._memory(key, owner)
        observed = await observe_pool(self._operator, memory, owner, spec)
        planned = plan_rollout_pool(observed, now=self._operator.cluster.contact.server_time())
        memory.keep(planned, self._operator.clock())
        memory.warm_starts.reports = observed.reports
        plan, is_status_late = self._pace_status(planned.plan, observed, memory)
        outcome = await self._operator.executor.execute(plan, owner)
        self._remember(key, memory, planned, outcome)
        if is_status_late or outcome.refused or outcome.kept or outcome.existed:
            return _AGAIN_SECONDS
        return plan.requeue_after_seconds

    def _memory(self, key: Key, owner: Manifest) -> PoolMemory:
        uid = owner["metadata"]["uid"]
        memory = self._memories.get(key)
        if memory is None or memory.pool_uid != uid:
            status = owner.get("status") or {}
            memory = self._memories[key] = PoolMemory(uid, Counter(status.get("failures") or {}))
            memory.recycled, memory.discarded = status.get("recycled", 0), Counter(status.get("discarded") or {})
        return memory

    def _pace_status(self, plan: Plan, observed: ObservedPool, memory: PoolMemory) -> tuple[Plan, bool]:
        """Leave out a status that only counts a little further than one written just now."""
        assert plan.status is not None
        now = self._operator.clock()
        if plan.events or now - memory.status_written_at >= _STATUS_GAP_SECONDS:
            memory.status_written_at = now
            return plan, False
        late = not is_shown(observed.owner, plan.status)
        return replace(plan, status=None, events=()), late

    def _remember(self, key: Key, memory: PoolMemory, planned: PoolPlan, outcome: Outcome) -> None:
        now = self._operator.clock()
        if outcome.refused:
            images = {name_of(pod): annotations_of(pod)[ANNOTATION_IMAGE] for pod in planned.plan.create}
            memory.hear_refusals(outcome.refused, images, now)
        elif outcome.created or not planned.is_short:
            memory.hear_acceptance()
        fenced = {deletion.name for deletion in outcome.deleted if deletion.resource is LEASES}
        memory.fenced |= fenced
        for name in outcome.existed:
            slot = parse_slot(key.name, name)
            # Heard of meanwhile: it was our own, created by a request whose answer got lost.
            if slot is not None and self._operator.caches.get(PODS, key.namespace, name) is None:
                memory.blocked_until[slot] = now + _BLOCKED_SECONDS
        metrics = self._operator.metrics
        metrics.sandboxes_created.labels(key.namespace, key.name).inc(len(outcome.created))
        memory.recycled += len(outcome.patched)
        metrics.sandboxes_recycled.labels(key.namespace, key.name).inc(len(outcome.patched))
        metrics.holders_reaped.labels(key.namespace, key.name).inc(len(fenced))
        for state, count in (planned.plan.status or {}).items():
            if state in _STATES:
                metrics.sandboxes.labels(key.namespace, key.name, state).set(count)
        if outcome.created or outcome.deleted or outcome.refused:
            logger.info(
                "created %d, deleted %d, refused %d",
                *(len(outcome.created), len(outcome.deleted), len(outcome.refused)),
                extra={"object": str(key)},
            )

    async def _clean_up_after(self, key: Key) -> float | None:
        """The pool is gone, and its pods with it; Leases and demands of holders that died are nobody's: reap them."""
        memory = self._memories.get(key)
        if memory is None or memory.pool_uid:
            memory = self._memories[key] = PoolMemory("", Counter())
        holders = await observe_holders(
            self._operator.cluster,
            self._operator.caches,
            memory,
            namespace=key.namespace,
            pool=key.name,
            claimed_by=set(),
            now=self._operator.clock(),
        )
        deletions = tuple(deletion for holder in holders for deletion in holder.deletions)
        deleted = await self._operator.executor.delete_all(deletions)
        memory.fenced |= {deletion.name for deletion in deleted if deletion.resource is LEASES}
        if not holders:
            del self._memories[key]
            return None
        return _AGAIN_SECONDS if deletions else min(holder.seconds_left or _AGAIN_SECONDS for holder in holders)

    async def _refuse(self, owner: Manifest, error: ValidationError) -> None:
        """The spec passed the API server's schema but not ours: say so and touch nothing."""
        first = error.errors()[0]
        field = ".".join(str(part) for part in ("spec", *first["loc"]))
        message = f"{field}: {first['msg']}; correct it with kubectl edit"
        generation = int(owner["metadata"]["generation"])
        conditions = [
            Condition("Ready", "False", "InvalidSpec", message),
            Condition("Progressing", "False", "InvalidSpec", message),
            Condition("Degraded", "True", "InvalidSpec", message),
        ]
        merged = merge_conditions(
            (owner.get("status") or {}).get("conditions") or (),
            conditions,
            generation=generation,
            now=self._operator.cluster.contact.server_time(),
        )
        status = {**(owner.get("status") or {}), "observedGeneration": generation, "conditions": merged}
        await self._operator.executor.write_status(owner, status)

    def _hear_pod(self, old: Manifest | None, new: Manifest | None) -> None:
        subject = new or old
        assert subject is not None
        if (pool := labels_of(subject).get(LABEL_POOL)) is None:
            return
        key = self._enqueue(subject, pool)
        memory = self._memories.get(key)
        if memory is None:
            return
        # Whatever was in the way has shown itself, or has gone.
        if (slot := parse_slot(pool, name_of(subject))) is not None:
            memory.blocked_until.pop(slot, None)
        self._time_stages(key, memory, old, new)
        if new is None:
            pod = memory.parsed.parse(pool, memory.pool_uid, subject)
            failure = memory.bury(pod) if pod is not None else None
            if pod is not None and (why := memory.discarding.pop(pod.uid, None)) is not None:
                memory.discarded[why] += 1
                self._operator.metrics.sandboxes_discarded.labels(key.namespace, pool, why).inc()
            if failure is not None:
                self._operator.metrics.sandbox_failures.labels(key.namespace, pool, failure.reason).inc()

    def _time_stages(self, key: Key, memory: PoolMemory, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None:
            return
        before, after = (memory.parsed.parse(key.name, memory.pool_uid, pod) for pod in (old, new))
        if before is None or after is None or before.uid != after.uid:
            return
        for stage, seconds in passed_stages(before, after).items():
            self._operator.metrics.stage_seconds.labels(key.namespace, key.name, stage).observe(seconds)
        if before.node is None and after.node is not None:
            warmth = "held" if memory.warm_starts.record(after.node, container_image(new)) else "missing"
            self._operator.metrics.sandbox_starts.labels(key.namespace, key.name, warmth).inc()

    def _hear_lease(self, old: Manifest | None, new: Manifest | None) -> None:
        """A renewal changes no plan; only a Lease that comes or goes is worth a pass."""
        subject = new or old
        assert subject is not None
        if (pool := labels_of(subject).get(LABEL_POOL)) is None:
            return
        key = Key(self.resource.kind, namespace_of(subject) or "", pool)
        memory = self._memories.get(key)
        if memory is not None:
            memory.leases.hear(name_of(subject), lease_edition(new), self._operator.clock())
        if old is None or new is None:
            self._operator.queue.add(key)

    def _hear_other(self, old: Manifest | None, new: Manifest | None) -> None:
        subject = new or old
        assert subject is not None
        if (pool := labels_of(subject).get(LABEL_POOL)) is not None:
            self._enqueue(subject, pool)

    def _enqueue(self, subject: Manifest, pool: str) -> Key:
        key = Key(self.resource.kind, namespace_of(subject) or "", pool)
        self._operator.queue.add(key)
        return key
