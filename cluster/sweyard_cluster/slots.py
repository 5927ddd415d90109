"""Handing out address slots, so that clusters of one cache and of others on the machine do not meet."""

import contextlib
import dataclasses
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager

from .addresses import Addresses, choose_slot
from .locking import exclusive
from .paths import Cache, ClusterPaths
from .spec import ClusterRequest, ClusterSpec, read_spec, write_spec


def port_is_free(port: int) -> bool:
    """Whether nothing listens on the loopback port (a connection of the past does not count)."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def host_networks() -> list[str]:
    """Destinations that the host's routing table knows, other than the default route."""
    if shutil.which("ip") is None:
        return []
    told = subprocess.run(["ip", "-j", "-4", "route", "show"], capture_output=True, text=True, check=True).stdout
    return [route["dst"] for route in json.loads(told or "[]") if route["dst"] != "default"]


def clusters(cache: Cache) -> Iterator[tuple[ClusterPaths, ClusterSpec]]:
    """Every cluster of the cache, by name."""
    for directory in sorted(cache.clusters.glob("[!.]*")):
        paths = cache.cluster(directory.name)
        if spec := read_spec(paths.spec):
            yield paths, spec


def no_new_clusters(cache: Cache) -> AbstractContextManager[None]:
    """While it is held, nobody takes a slot; those of clusters that go become free."""
    return exclusive(cache.clusters / ".slots.lock")


def take_slot(cache: Cache, name: str, wanted: ClusterRequest) -> ClusterSpec:
    """Write the spec of a new cluster in a slot that nobody else can get."""
    with no_new_clusters(cache):
        taken = [spec.slot for _, spec in clusters(cache)]
        addresses: Addresses = choose_slot(taken, host_networks(), port_is_free)
        spec = ClusterSpec(name=name, slot=addresses.slot, **dataclasses.asdict(wanted))
        write_spec(cache.cluster(name).spec, spec)
    return spec
