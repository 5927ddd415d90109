"""How many sandboxes may be starting at once: nodes are fed as fast as they start pods, and never choked.

A kubelet works on all its new pods at the same time, so a node that is given hundreds starts none of them for minutes.
The window is so many starting sandboxes for each node that the pool's pods have reached, as a sender of packets learns
the width of a path: the first wave finds the nodes, the next ones use them, and nobody needs to watch nodes.
"""

from collections.abc import Iterable
from datetime import datetime

from sweyard_operator.plan.pool_state import Census
from sweyard_operator.plan.sandbox import SandboxPod

_CONTAINER_START_SECONDS = 10.0
"""A pod whose network stands for longer than this, with no container yet, waits for its image: that costs a registry
and a disk, which the kubelet rations itself, but keeps no other pod from starting."""


def room_to_start(census: Census, *, max_starting_per_node: int) -> int:
    """Sandboxes that may be created now."""
    nodes = {pod.node for pod in _all_pods(census) if pod.node}
    starting = sum(_is_burden(pod, census.now) for pod in census.free)
    return max(0, max_starting_per_node * max(1, len(nodes)) - starting)


def _is_burden(pod: SandboxPod, now: datetime) -> bool:
    """It occupies a kubelet, or will at once. One that no node can take does not: an autoscaler counts those."""
    if pod.is_ready or pod.unschedulable_message:
        return False
    if pod.networked_at is None or pod.waiting_reason not in ("", "ContainerCreating"):
        return True
    return (now - pod.networked_at).total_seconds() < _CONTAINER_START_SECONDS


def _all_pods(census: Census) -> Iterable[SandboxPod]:
    return (*census.free, *census.claimed, *census.terminating)
