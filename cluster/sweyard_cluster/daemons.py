"""The processes that a cluster consists of, by the names of their records, whether they were ever started or not."""

from .addons import PROVISIONER
from .control_plane import API_SERVER, ETCD, KEEPER, PARTS
from .fake_nodes import NAME as KWOK
from .kueue import NAME as KUEUE
from .node import PROGRAMS
from .registry import NAME as REGISTRY
from .spec import ClusterSpec

SERVING = (ETCD, API_SERVER)
"""Without either of these nobody can ask the cluster anything."""


def daemon_names(spec: ClusterSpec) -> list[str]:
    """Of the control plane, then of each node, whose namespaces are held by a process named after it."""
    names = [*PARTS, KEEPER]
    if spec.nodes:
        names += [REGISTRY, PROVISIONER]
    for node in spec.node_names:
        names += [node, *(f"{node}-{program}" for program in PROGRAMS)]
    names += [KWOK] if spec.fake_nodes else []
    return [*names, KUEUE] if spec.kueue else names
