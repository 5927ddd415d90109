"""Nodes, caches and their reports from a cluster."""

from collections.abc import Mapping
from typing import Any

from kubernetes import client

from sweyard_api.constants import GROUP, LABEL_CACHE, VERSION
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.kinds import IMAGE_CACHE
from sweyard_cli.cache.holdings import Holdings, read_holdings
from sweyard_cli.cache.on_nodes import Places, find_places
from sweyard_cli.cache.wanted import Wanted
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError
from sweyard_operator.observe.image_cache import (
    LABEL_HOLDS,
    LABEL_ROLE,
    ObservedCache,
    disk_bytes_of,
    usable_nodes,
)
from sweyard_operator.observe.listed_images import listed_images
from sweyard_operator.plan.image_inputs import plan_budgets
from sweyard_operator.plan.placement import CacheNode

_FORBIDDEN = 403


def cluster_places(connection: Connection, wanted: Wanted) -> Places:
    """Nodes that would take part now, and what of the plan they hold. Raises UserError."""
    budgets = {node.name: node.budget_bytes for node in cluster_nodes(connection, wanted.spec)}
    with told_plainly("what nodes hold cannot be listed"):
        return find_places(wanted, connection.namespace, budgets, *_list_reports(connection))


def _list_reports(connection: Connection) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of all caches; of those of this namespace for who may not see the others."""
    core = client.CoreV1Api(connection.api_client)
    try:
        maps = core.list_config_map_for_all_namespaces(label_selector=LABEL_ROLE)
        pods = core.list_pod_for_all_namespaces(label_selector=LABEL_HOLDS)
    except client.ApiException as error:
        if error.status != _FORBIDDEN:
            raise
        maps = core.list_namespaced_config_map(connection.namespace, label_selector=LABEL_ROLE)
        pods = core.list_namespaced_pod(connection.namespace, label_selector=LABEL_HOLDS)
    return _plain(connection, maps), _plain(connection, pods)


def cluster_nodes(connection: Connection, spec: ImageCacheSpec) -> list[CacheNode]:
    """Nodes that would take part now, with the budgets that they would have. Raises UserError."""
    with told_plainly("nodes cannot be listed"):
        found = _plain(connection, client.CoreV1Api(connection.api_client).list_node())
    names = usable_nodes(found, spec.node_selector)
    observed = ObservedCache((), None, names, {}, (), (), disk_bytes=disk_bytes_of(found))
    budgets = plan_budgets(spec, observed)
    return [CacheNode(name, budgets.get(name)) for name in names]


def listed_by(connection: Connection, name: str) -> tuple[str, ...] | None:
    """Images that a ConfigMap lists; None if there is no such ConfigMap. Raises UserError."""
    with told_plainly(f"ConfigMap {connection.namespace}/{name} cannot be read"):
        try:
            found = client.CoreV1Api(connection.api_client).read_namespaced_config_map(name, connection.namespace)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise
    return listed_images(connection.api_client.sanitize_for_serialization(found))


def list_holdings(connection: Connection, name: str | None) -> list[Holdings]:
    """Of the namespace's caches, or of one. Raises UserError."""
    custom, core = client.CustomObjectsApi(connection.api_client), client.CoreV1Api(connection.api_client)
    where = connection.namespace
    with told_plainly("ImageCaches cannot be listed"):
        caches = custom.list_namespaced_custom_object(GROUP, VERSION, where, IMAGE_CACHE.plural)["items"]
        wanted = [cache for cache in caches if name in (None, cache["metadata"]["name"])]
        maps = _plain(connection, core.list_namespaced_config_map(where, label_selector=LABEL_CACHE))
        pods = _plain(connection, core.list_namespaced_pod(where, label_selector=LABEL_CACHE))
    if name is not None and not wanted:
        raise UserError(f"there is no ImageCache {name} in namespace {where}")
    return [read_holdings(cache, _of(cache, maps), _of(cache, pods)) for cache in wanted]


def _of(cache: Mapping[str, Any], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item["metadata"]["labels"][LABEL_CACHE] == cache["metadata"]["name"]]


def _plain(connection: Connection, listed: Any) -> list[dict[str, Any]]:
    return list(connection.api_client.sanitize_for_serialization(listed)["items"])
