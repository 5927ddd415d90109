"""One pass over one ImageCache: observe, plan, execute."""

from collections.abc import Collection, Iterable
from datetime import datetime

from pydantic import ValidationError

from sweyard_api.constants import LABEL_CACHE, LABEL_POOL
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_agent import AgentHost
from sweyard_operator.conditions import Condition, merge_conditions
from sweyard_operator.context import Operator
from sweyard_operator.observe.image_cache import (
    LABEL_HOLDS,
    ObservedCache,
    absent_nodes,
    disk_bytes_of,
    read_reports,
    read_told,
    usable_nodes,
    wanted_images,
)
from sweyard_operator.observe.image_need import cache_of, observe_wanted
from sweyard_operator.observe.listed_images import listed_images, listed_sizes
from sweyard_operator.observe.warning_events import observe_warnings
from sweyard_operator.plan.image_cache import plan_image_cache
from sweyard_operator.plan.image_need import Need, follow
from sweyard_operator.plan.mirrors import mirrored
from sweyard_operator.plan.plan import Plan
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    IMAGE_CACHES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLLOUT_POOLS,
    SERVICE_ACCOUNTS,
    Manifest,
    edition_of,
    labels_of,
)
from sweyard_operator.work_queue import Key

_AGENT_CHILDREN = (DAEMON_SETS, SERVICE_ACCOUNTS, ROLE_BINDINGS)
SOURCE_POLL_SECONDS = 30.0
"""The imagesFrom ConfigMap is the user's, carries no label of ours, and is read once a pass."""
DEMAND_GAP_SECONDS = 5.0
"""A wave of claims changes the demand many times; agents look at their assignments each 2 to 10 seconds."""


class ImageCacheController:
    """Keeps images on nodes."""

    resource = IMAGE_CACHES

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._needs: dict[Key, Need] = {}
        operator.caches.watch(CONFIG_MAPS, LABEL_CACHE, self._child_changed)
        operator.caches.watch(PODS, LABEL_CACHE, self._pod_changed)
        for resource in _AGENT_CHILDREN:
            operator.caches.watch(resource, LABEL_CACHE, self._agents_changed)
        operator.caches.watch(NODES, "", self._node_changed)
        operator.caches.watch(ROLLOUT_POOLS, "")
        operator.caches.watch(CONFIG_MAPS, LABEL_POOL, self._demand_changed)

    async def reconcile(self, key: Key) -> float | None:
        """One pass; deletion is the garbage collector's work."""
        cache = await self._operator.cluster.find(IMAGE_CACHES, key.namespace, key.name)
        if cache is None or "deletionTimestamp" in cache["metadata"]:
            self._needs.pop(key, None)
            return None
        self._needs.setdefault(key, Need())
        now = self._operator.cluster.contact.server_time()
        try:
            spec = ImageCacheSpec.model_validate(cache["spec"])
        except ValidationError as error:
            await self._operator.executor.execute(_invalid(cache, error, now), cache)
            return None
        observed = await self._observe(key, cache, spec)
        settings = self._operator.settings
        host = AgentHost(settings.cache_agent_image, settings.runtime_socket)
        plan = plan_image_cache(cache, spec, observed, agent_host=host, now=now)
        await self._operator.executor.execute(plan, cache)
        return SOURCE_POLL_SECONDS if spec.images_from is not None else None

    async def _observe(self, key: Key, cache: Manifest, spec: ImageCacheSpec) -> ObservedCache:
        caches, namespace, name = self._operator.caches, key.namespace, key.name
        source = None
        if spec.images_from is not None:
            source = await self._operator.cluster.find(CONFIG_MAPS, namespace, spec.images_from)
        every_node = caches.every(NODES)
        nodes = usable_nodes(every_node, spec.node_selector)
        config_maps = tuple(caches.labelled(CONFIG_MAPS, namespace, LABEL_CACHE, name))
        reports = read_reports(config_maps)
        images = tuple(mirrored(image, spec.mirrors) for image in wanted_images(spec.images, source))
        asked = (mirrored(image, spec.mirrors) for image in observe_wanted(caches, namespace, name))
        self._needs[key] = follow(self._needs.get(key, Need()), asked, images)
        pods = tuple(caches.labelled(PODS, namespace, LABEL_CACHE, name))
        agents = tuple(item for kind in _AGENT_CHILDREN for item in caches.labelled(kind, namespace, LABEL_CACHE, name))
        lacking = _lacking_pods(agents, pods, reports.keys() >= set(nodes))
        warnings = await observe_warnings(self._operator.cluster, namespace, lacking)
        return ObservedCache(
            images=images,
            missing_source=spec.images_from if source is None else None,
            empty_source=None if source is None or listed_images(source) else spec.images_from,
            nodes=nodes,
            absent_nodes=absent_nodes(every_node, spec.node_selector),
            reports={node: reports[node] for node in nodes if node in reports},
            told=read_told(name, config_maps, nodes),
            sizes={} if source is None else _sizes(source, spec),
            disk_bytes=disk_bytes_of(every_node),
            config_maps=config_maps,
            pods=pods,
            agents=agents,
            need=self._needs[key],
            agent_warning=next(iter(warnings.values()), ""),
        )

    def _child_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        if item is not None:
            self._operator.queue.add(
                Key(IMAGE_CACHES.kind, item["metadata"]["namespace"], labels_of(item)[LABEL_CACHE])
            )

    def _pod_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        # An agent's pod is no news: its report is.
        if LABEL_HOLDS in labels_of(after or before or {"metadata": {}}):
            self._child_changed(before, after)

    def _agents_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        # Nor is a DaemonSet's status, which changes with each of its pods.
        if not before or not after or edition_of(before) != edition_of(after):
            self._child_changed(before, after)

    def _node_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        # A node's heartbeat is no news; coming, going, cordoning and readiness are.
        if (before and usable_nodes([before], {})) == (after and usable_nodes([after], {})):
            return
        for key in self._needs:
            self._operator.queue.add(key)

    def _demand_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        if item is None:
            return
        namespace = item["metadata"]["namespace"]
        cache = cache_of(self._operator.caches.get(ROLLOUT_POOLS, namespace, labels_of(item)[LABEL_POOL]))
        if cache is not None:
            self._operator.queue.add(Key(IMAGE_CACHES.kind, namespace, cache), DEMAND_GAP_SECONDS)


def _lacking_pods(agents: Iterable[Manifest], pods: Collection[Manifest], has_every_report: bool) -> list[str]:
    """UID of a DaemonSet none of whose pods is there: one that is tells by itself what it waits for."""
    sets = [item["metadata"]["uid"] for item in agents if item["kind"] == DAEMON_SETS.kind]
    return [] if pods or has_every_report else sets


def _sizes(source: Manifest, spec: ImageCacheSpec) -> dict[str, tuple[int, int]]:
    return {mirrored(image, spec.mirrors): told for image, told in listed_sizes(source).items()}


def _invalid(cache: Manifest, error: ValidationError, now: datetime) -> Plan:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    condition = Condition("Ready", "False", "InvalidSpec", f"spec.{field}: {first['msg']}")
    old = (cache.get("status") or {}).get("conditions") or []
    generation = int(cache["metadata"].get("generation", 0))
    conditions = merge_conditions(old, [condition], generation=generation, now=now)
    return Plan(status={"observedGeneration": generation, "conditions": conditions})
