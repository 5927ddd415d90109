"""The nodes of a cluster in a test's hands: what they offer, and how they are lost."""

from collections.abc import Iterable

from sweyard_cluster import faults
from sweyard_cluster.testing import TestCluster

GPU = "nvidia.com/gpu"
RACK = "example.com/rack"
"""A label."""


class Nodes:
    """Of a cluster of `python -m sweyard_cluster`."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        self._cut_off: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        return self._cluster.tool.spec(self._cluster.name).node_names

    def give_gpus(self, nodes: Iterable[str], count: int = 1) -> None:
        """To each so many, as a device plugin would; there is no device behind them."""
        for node in nodes:
            told = {field: {GPU: str(count)} for field in ("capacity", "allocatable")}
            self._patch(f"{node}/status", {"status": told})

    def label(self, nodes: Iterable[str], name: str, value: str | None) -> None:
        """None takes it away."""
        for node in nodes:
            self._patch(node, {"metadata": {"labels": {name: value}}})

    def taint(self, nodes: Iterable[str], key: str | None) -> None:
        """Nothing is placed there that does not tolerate it; None takes all taints away."""
        for node in nodes:
            self._patch(node, {"spec": {"taints": [] if key is None else [{"key": key, "effect": "NoSchedule"}]}})

    def drain(self, node: str) -> None:
        """Raises ClusterError if a pod does not go in time."""
        patience = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=280s")
        self._cluster.kubectl("drain", node, *patience)

    def cordon(self, node: str) -> None:
        self._cluster.kubectl("cordon", node)

    def uncordon(self, node: str) -> None:
        self._cluster.kubectl("uncordon", node)

    def power_off(self, node: str) -> None:
        """Kubelet, containerd and all containers end at once, and nobody says so."""
        faults.fail_node(self._cluster.tool, self._cluster.tool.spec(self._cluster.name), node, faults.POWER)

    def cut_off(self, node: str) -> None:
        """Nothing of what runs there hears of anybody, or is heard of, from now on."""
        faults.fail_node(self._cluster.tool, self._cluster.tool.spec(self._cluster.name), node, faults.NETWORK)
        self._cut_off.add(node)

    def heal(self) -> None:
        """Those without power come back with their disk, those cut off are heard again, and all may be used."""
        spec = self._cluster.tool.spec(self._cluster.name)
        for node in self._cluster.tool.parts(spec).nodes:
            if not node.powered or node.name in self._cut_off:
                faults.heal_node(self._cluster.tool, spec, node.name)
            self.uncordon(node.name)
        self._cut_off.clear()

    def reset(self) -> None:
        """As they were made: whole, without GPUs, racks and taints."""
        self.heal()
        self.give_gpus(self.names, 0)
        self.label(self.names, RACK, None)
        self.taint(self.names, None)

    def _patch(self, path: str, body: dict[str, object]) -> None:
        self._cluster.api.call("PATCH", f"/api/v1/nodes/{path}", body, "merge-patch+json")
