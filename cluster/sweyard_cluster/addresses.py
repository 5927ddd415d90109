"""Which networks and ports a cluster uses: each takes a slot, and slots never overlap."""

import ipaddress
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from .errors import ClusterError

SLOTS = 60
MAX_NODES = 60
FIRST_PORT = 23000
PORTS_PER_SLOT = 10
API_PORT = 6443
REGISTRY_PORT = 5000


@dataclass(frozen=True)
class Addresses:
    """Addresses of the cluster in a slot: nodes in a /24 behind a bridge, a /16 of pods, a /16 of Services."""

    slot: int

    @property
    def bridge(self) -> str:
        return f"swy{self.slot}"

    @property
    def node_network(self) -> str:
        return f"172.29.{self.slot}.0/24"

    @property
    def host(self) -> str:
        """The bridge's own address: API server and registry of a cluster with nodes listen there."""
        return f"172.29.{self.slot}.1"

    @property
    def pod_network(self) -> str:
        return f"10.{64 + self.slot}.0.0/16"

    @property
    def service_network(self) -> str:
        return f"10.{128 + self.slot}.0.0/16"

    @property
    def api_service(self) -> str:
        return f"10.{128 + self.slot}.0.1"

    @property
    def dns_service(self) -> str:
        return f"10.{128 + self.slot}.0.10"

    @property
    def local_api_port(self) -> int:
        """Port on the loopback address of an API server without nodes."""
        return FIRST_PORT + PORTS_PER_SLOT * self.slot

    @property
    def etcd_port(self) -> int:
        return self.local_api_port + 1

    @property
    def etcd_peer_port(self) -> int:
        return self.local_api_port + 2

    @property
    def kwok_port(self) -> int:
        return self.local_api_port + 3

    @property
    def kueue_port(self) -> int:
        return self.local_api_port + 4

    @property
    def registry(self) -> str:
        return f"{self.host}:{REGISTRY_PORT}"

    @property
    def networks(self) -> tuple[str, ...]:
        return (self.node_network, self.pod_network, self.service_network)

    @property
    def loopback_ports(self) -> tuple[int, ...]:
        first = self.local_api_port
        return (first, self.etcd_port, self.etcd_peer_port, self.kwok_port, self.kueue_port)

    def node(self, index: int) -> str:
        """Address of node `index`, which counts from 1."""
        return f"172.29.{self.slot}.{10 + index}"

    def node_pods(self, index: int) -> str:
        """The node's share of the pod network, with room for 1000 pods."""
        return f"10.{64 + self.slot}.{4 * index}.0/22"

    def node_link(self, index: int) -> str:
        """Name of the host's end of the node's cable, within the kernel's 15 characters."""
        return f"swy{self.slot}n{index}"


def choose_slot(taken: Collection[int], host_networks: Iterable[str], port_is_free: Callable[[int], bool]) -> Addresses:
    """The first slot that no cluster has, no route of the host overlaps and whose ports are free."""
    routed = [ipaddress.ip_network(network) for network in host_networks]
    for slot in range(SLOTS):
        addresses = Addresses(slot)
        ours = [ipaddress.ip_network(network) for network in addresses.networks]
        if slot in taken or any(mine.overlaps(theirs) for mine in ours for theirs in routed):
            continue
        if all(port_is_free(port) for port in addresses.loopback_ports):
            return addresses
    raise ClusterError(f"all {SLOTS} cluster slots are in use; take a cluster down with `down --name NAME`")
