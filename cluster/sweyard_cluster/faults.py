"""Power loss and network loss of a node, and their repair."""

from . import network
from .errors import ClusterError
from .lifecycle import READY_TIMEOUT, Tool
from .locking import exclusive
from .node import Node
from .spec import ClusterSpec

POWER, NETWORK = "power", "network"


def named_node(tool: Tool, spec: ClusterSpec, name: str) -> Node:
    """The node of that name; raises ClusterError naming those that there are."""
    for node in tool.parts(spec).nodes:
        if node.name == name:
            return node
    raise ClusterError(f"NODE {name!r} is not a node of cluster {spec.name!r}: {', '.join(spec.node_names)}")


def fail_node(tool: Tool, spec: ClusterSpec, name: str, fault: str) -> None:
    """Take the node's power (all its processes end at once) or its network (they run on, unheard)."""
    node = named_node(tool, spec, name)
    with exclusive(tool.cache.cluster(spec.name).lock):
        if not node.powered:
            raise ClusterError(f"{name} has no power already; heal it first")
        if fault == POWER:
            node.power_off()
        else:
            network.set_cable(spec.addresses, node.index, plugged=False)


def heal_node(tool: Tool, spec: ClusterSpec, name: str) -> None:
    """Plug the cable in, start what is not running, and wait until the node is Ready; safe to repeat."""
    node = named_node(tool, spec, name)
    with exclusive(tool.cache.cluster(spec.name).lock):
        node.start()
        node.start_policy()
        tool.kubectl(spec.name).run("wait", "--for=condition=Ready", f"node/{name}", f"--timeout={READY_TIMEOUT}")
