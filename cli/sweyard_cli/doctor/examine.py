"""Facts from a cluster, for the checks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import urllib3
from kubernetes import client
from pydantic import ValidationError

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.kinds import IMAGE_CACHE, KINDS
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.doctor.accelerators import check_accelerators
from sweyard_cli.doctor.clocks import check_clocks
from sweyard_cli.doctor.dns import check_dns
from sweyard_cli.doctor.facts import (
    read_claims,
    read_clocks,
    read_dns,
    read_operator_pods,
    read_permissions,
    read_runtime_classes,
    read_storage_classes,
    read_version,
)
from sweyard_cli.doctor.finding import Finding, Level
from sweyard_cli.doctor.image_disk import NodeDisk, check_budgets, default_collection, read_collection, read_max_age
from sweyard_cli.doctor.nodes import check_kinds, check_nodes, check_runtimes
from sweyard_cli.doctor.permissions import check_permissions
from sweyard_cli.doctor.running_operator import check_operator
from sweyard_cli.doctor.storage import check_claim, check_runtime_class, check_storage
from sweyard_cli.doctor.wanted import Wanted
from sweyard_operator.observe.image_cache import ObservedCache, disk_bytes_of, usable_nodes
from sweyard_operator.plan.image_inputs import plan_budgets

_MOST_ASKED = 100
"""Kubelets: one call each."""


def examine(connection: Connection, wanted: Wanted) -> Iterator[Finding]:
    """All checks but those that try something, each as soon as it is done.

    Raises UserError where the API server refuses or does not answer.
    """
    api, custom = client.CoreV1Api(connection.api_client), client.CustomObjectsApi(connection.api_client)
    yield read_version(connection)
    plurals = [kind.plural for kind in KINDS]
    kinds = check_kinds(_served(custom), plurals)
    yield kinds
    yield check_permissions(connection.namespace, read_permissions(connection))
    with told_plainly("nodes cannot be listed"):
        nodes = connection.api_client.sanitize_for_serialization(api.list_node())["items"]
    yield from check_nodes(nodes)
    yield from check_accelerators(nodes, wanted.accelerators)
    clocks = check_clocks(*read_clocks(connection, nodes))
    if clocks is not None:
        yield clocks
    yield check_dns(read_dns(connection))
    if wanted.claim is None:
        yield check_storage(read_storage_classes(connection), wanted.storage_class)
    else:
        yield check_claim(read_claims(connection), wanted.claim, connection.namespace)
    runtime_class = check_runtime_class(read_runtime_classes(connection), wanted.runtime_class)
    if runtime_class is not None:
        yield runtime_class
    if kinds.level is not Level.OK:
        return
    yield check_operator(read_operator_pods(connection))
    with told_plainly("ImageCaches cannot be listed"):
        caches = custom.list_cluster_custom_object(GROUP, VERSION, IMAGE_CACHE.plural)["items"]
    if caches:
        yield from check_runtimes(nodes)
        disks = read_disks(api, nodes)
        for cache in caches:
            yield from _check_cache(cache, nodes, disks)


def _served(custom: client.CustomObjectsApi) -> list[str]:
    with told_plainly("the API server's kinds cannot be listed"):
        try:
            return [resource.name for resource in custom.get_api_resources(GROUP, VERSION).resources]
        except client.ApiException as error:
            if error.status == 404:
                return []
            raise


def read_disks(api: client.CoreV1Api, nodes: Sequence[Mapping[str, Any]]) -> list[NodeDisk]:
    """Of nodes that tell the size of theirs; a kubelet that cannot be asked is taken to have its defaults."""
    disks = []
    for number, (name, num_bytes) in enumerate(disk_bytes_of(nodes).items()):
        told = _kubelet_config(api, name) if number < _MOST_ASKED else None
        if told is None:
            disks.append(NodeDisk(name, num_bytes, default_collection(), is_told=False))
        else:
            disks.append(NodeDisk(name, num_bytes, read_collection(told), is_told=True, max_age=read_max_age(told)))
    return disks


def _kubelet_config(api: client.CoreV1Api, node: str) -> dict[str, Any] | None:
    try:
        answer = api.connect_get_node_proxy_with_path(node, "configz", _preload_content=False, _request_timeout=5.0)
        return dict(json.loads(answer.data)["kubeletconfig"])
    except (client.ApiException, urllib3.exceptions.HTTPError, ValueError, KeyError):
        return None


def _check_cache(
    cache: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], disks: Sequence[NodeDisk]
) -> Iterator[Finding]:
    name = f"{cache['metadata']['namespace']}/{cache['metadata']['name']}"
    try:
        spec = ImageCacheSpec.model_validate(cache["spec"])
    except ValidationError as error:
        yield Finding(Level.PROBLEM, f"ImageCache {name} is invalid: {error.errors()[0]['msg']}")
        return
    names = usable_nodes(nodes, spec.node_selector)
    observed = ObservedCache((), None, names, {}, (), (), disk_bytes=disk_bytes_of(nodes))
    budgets = plan_budgets(spec, observed)
    by_name = {disk.name: disk for disk in disks}
    known = [by_name.get(node) or NodeDisk(node, 0, default_collection(), is_told=False) for node in names]
    yield from check_budgets(name, budgets, [disk for disk in known if disk.num_bytes or disk.name not in budgets])
