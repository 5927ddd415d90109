"""Counts what exists for a pool: from the caches, and from the API server where a cache would not do."""

from operator import attrgetter

from pydantic import ValidationError

from sweyard_api.constants import LABEL_CACHE, LABEL_POOL
from sweyard_api.image_cache import ImageCacheSpec, RegistryMirror
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.sandbox_pod import template_hash
from sweyard_operator.cache_agent.protocol import NodeReport
from sweyard_operator.context import Operator
from sweyard_operator.observe.holders import observe_holders
from sweyard_operator.observe.image_cache import read_reports, usable_nodes
from sweyard_operator.observe.lost_nodes import find_lost_nodes
from sweyard_operator.observe.pool_memory import PoolMemory
from sweyard_operator.plan.image_binding import NO_BINDING, Binding
from sweyard_operator.plan.image_reports import reports_of_pods
from sweyard_operator.plan.pool_state import ObservedPool
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.plan.slots import parse_slot
from sweyard_operator.resources import CONFIG_MAPS, IMAGE_CACHES, NODES, PODS, Manifest, name_of, namespace_of

_AVOIDED_SCORE = 0.5
_QUARANTINE_SCORE = 1.5
_UNPLACED_SCORE = 0.5


async def observe_pool(operator: Operator, memory: PoolMemory, owner: Manifest, spec: RolloutPoolSpec) -> ObservedPool:
    """One look."""
    now = operator.clock()
    memory.hear_template(template_hash(spec))
    name, namespace = name_of(owner), namespace_of(owner) or ""
    pods, strangers = find_pods(operator, memory, owner)
    holders = await observe_holders(
        operator.cluster,
        operator.caches,
        memory,
        namespace=namespace,
        pool=name,
        claimed_by={pod.holder for pod in pods if not pod.is_free},
        now=now,
    )
    memory.blocked_until = {slot: until for slot, until in memory.blocked_until.items() if until > now}
    held = {image: memory.image_faults.held_seconds(image, now) for image in memory.image_faults.at_least(0.0, now)}
    return ObservedPool(
        owner=owner,
        spec=spec,
        pods=pods,
        holders=holders,
        lost_nodes=await _find_lost_nodes(operator, pods),
        blocked_slots=strangers | frozenset(memory.blocked_until),
        avoided_nodes=tuple(sorted(memory.node_faults.at_least(_AVOIDED_SCORE, now))),
        quarantined_nodes=memory.node_faults.at_least(_QUARANTINE_SCORE, now),
        held_images={image: seconds for image, seconds in held.items() if seconds > 0.0},
        last_failures=dict(memory.last_failures),
        refusal=memory.refusal,
        refusal_hold_seconds=memory.refusal_hold_seconds(now),
        breach=memory.breaker.find_breach(now),
        max_starting_per_node=operator.settings.max_starting_per_node,
        unneeded_seconds={uid: now - since for uid, since in memory.unneeded_since.items()},
        failures=dict(memory.failures),
        released_seconds={container: now - since for container, since in memory.released_since.items()},
        recycled=memory.recycled,
        discarded=dict(memory.discarded),
        mirrors=find_mirrors(operator, namespace, spec),
        reports=find_reports(operator, namespace, spec),
        binding=find_binding(operator, memory, namespace, spec),
        warm_start_fraction=memory.warm_starts.fraction() if spec.image_cache_ref else None,
    )


def find_mirrors(operator: Operator, namespace: str, spec: RolloutPoolSpec) -> tuple[RegistryMirror, ...]:
    """Of the cache that the pool refers to; none while there is no such cache, or its spec cannot be read."""
    cache = _find_cache(operator, namespace, spec)
    return () if cache is None else tuple(cache.mirrors)


def _find_cache(operator: Operator, namespace: str, spec: RolloutPoolSpec) -> ImageCacheSpec | None:
    cache = operator.caches.get(IMAGE_CACHES, namespace, spec.image_cache_ref) if spec.image_cache_ref else None
    try:
        return None if cache is None else ImageCacheSpec.model_validate(cache["spec"])
    except ValidationError:
        return None


def find_binding(operator: Operator, memory: PoolMemory, namespace: str, spec: RolloutPoolSpec) -> Binding:
    """None but where the pool asks for it, and images are pulled ahead: else the first user would bind all others."""
    cache = _find_cache(operator, namespace, spec) if spec.image_affinity == "required" else None
    if cache is None or cache.copies == 0:
        return NO_BINDING
    return Binding(
        nodes=frozenset(usable_nodes(operator.caches.every(NODES), spec.template.node_selector)),
        late_images=frozenset(memory.late_images),
        unplaced_images=frozenset(memory.unplaced_images.at_least(_UNPLACED_SCORE, operator.clock())),
    )


def find_reports(operator: Operator, namespace: str, spec: RolloutPoolSpec) -> dict[str, NodeReport]:
    """By node that takes pods: what it says to hold of the images of the cache that the pool refers to."""
    cache, caches = spec.image_cache_ref, operator.caches
    if cache is None:
        return {}
    reports = read_reports(caches.labelled(CONFIG_MAPS, namespace, LABEL_CACHE, cache))
    if reports:
        usable = set(usable_nodes(caches.every(NODES), {}))
        return {node: report for node, report in reports.items() if node in usable}
    return reports_of_pods(caches.labelled(PODS, namespace, LABEL_CACHE, cache))


def find_pods(operator: Operator, memory: PoolMemory, owner: Manifest) -> tuple[tuple[SandboxPod, ...], frozenset[int]]:
    """The pool's own pods, by slot, and the slots that others' pods occupy (a predecessor's, on their way out)."""
    name, uid = name_of(owner), owner["metadata"]["uid"]
    found = operator.caches.labelled(PODS, namespace_of(owner) or "", LABEL_POOL, name)
    memory.parsed.keep_only(found)
    parsed = [(pod, memory.parsed.parse(name, uid, pod)) for pod in found]
    own = sorted((pod for _, pod in parsed if pod is not None), key=attrgetter("slot"))
    others = (parse_slot(name, name_of(item)) for item, pod in parsed if pod is None)
    return tuple(own), frozenset(slot for slot in others if slot is not None)


async def _find_lost_nodes(operator: Operator, pods: tuple[SandboxPod, ...]) -> frozenset[str]:
    """Of the nodes whose pods are overdue to be gone."""
    now = operator.cluster.contact.server_time()
    nodes = {pod.node for pod in pods if pod.node and pod.deletion_due_at is not None and pod.deletion_due_at < now}
    return await find_lost_nodes(operator.cluster, nodes)
