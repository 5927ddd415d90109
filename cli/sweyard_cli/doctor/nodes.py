"""Nodes that can take work, and whether they are alike: pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level
from sweyard_operator.observe.image_cache import usable_nodes

_ARCHITECTURE = "kubernetes.io/arch"
_SOCKETS = {"-k3s": "/run/k3s/containerd/containerd.sock", "cri-o://": "/run/crio/crio.sock"}
"""Of container runtimes that listen elsewhere than cache agents look, by a part of what their nodes say."""


def check_nodes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Ready and schedulable ones, and one architecture."""
    usable = usable_nodes(nodes, {})
    if not usable:
        yield Finding(Level.PROBLEM, f"none of {len(nodes)} nodes is Ready and schedulable; `kubectl get nodes`")
        return
    yield Finding(Level.OK, f"{len(usable)} of {len(nodes)} nodes are Ready and schedulable")
    found = Counter((node["metadata"].get("labels") or {}).get(_ARCHITECTURE, "unknown") for node in nodes)
    if len(found) > 1:
        told = ", ".join(f"{count} {name}" for name, count in found.most_common())
        yield Finding(
            Level.WARNING,
            f"nodes of several architectures ({told}): task images are mostly built for one; give the ImageCache and "
            f"sandboxes a nodeSelector {_ARCHITECTURE}",
        )


def check_runtimes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Where cache agents find them, which the chart is told for all nodes at once."""
    said = [
        str(((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion", "")) for node in nodes
    ]
    for part, socket in _SOCKETS.items():
        if count := sum(part in runtime for runtime in said):
            runtime = next(runtime for runtime in said if part in runtime)
            yield Finding(
                Level.WARNING,
                f"{count} of {len(nodes)} nodes run {runtime}: agents of ImageCaches find it if the chart has "
                f"cacheAgent.runtimeSocket={socket}",
            )


def check_kinds(served: Sequence[str], wanted: Sequence[str]) -> Finding:
    """Plurals of the kinds that the API server serves, and of ours."""
    missing = [name for name in wanted if name not in served]
    if missing:
        return Finding(
            Level.PROBLEM, f"the cluster does not know {', '.join(missing)}: install the chart or crds/*.yaml"
        )
    return Finding(Level.OK, "the cluster knows " + ", ".join(wanted))
