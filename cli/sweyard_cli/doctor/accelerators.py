"""GPUs: how many nodes offer, of which kind and driver, and whether a run's fit: pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level

RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_PRODUCT, _DRIVER = "nvidia.com/gpu.product", "nvidia.com/cuda.driver-version.full"
"""Labels that GPU feature discovery gives to nodes."""
OLDEST_DRIVER = 580
"""The branch for CUDA 13, which the pinned wheels of torch and vLLM are built with."""


def check_accelerators(nodes: Sequence[Mapping[str, Any]], wanted: Mapping[str, int]) -> Iterator[Finding]:
    """`wanted` by a run: number by resource, in all its pods."""
    offered = offered_by(nodes)
    for resource, count in wanted.items():
        if count > offered[resource]:
            yield Finding(
                Level.PROBLEM,
                f"the run wants {count} {resource} and nodes offer {offered[resource]}: add nodes, or ask for fewer; "
                "where a node has some but offers none, its device plugin does not run",
            )
    if not sum(offered.values()):
        if not wanted:
            yield Finding(Level.OK, "nodes offer no GPUs, and nothing here asks for any")
        return
    kinds = Counter(_kind(node) for node in nodes if any(_allocatable(node, name) for name in RESOURCES))
    told = ", ".join(f"{count} node{'' if count == 1 else 's'} with {kind}" for kind, count in kinds.most_common())
    yield Finding(Level.OK, f"nodes offer {', '.join(f'{n} {name}' for name, n in offered.items() if n)}: {told}")
    yield from check_drivers(nodes)


def offered_by(nodes: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Number by resource."""
    return Counter({name: sum(_allocatable(node, name) for node in nodes) for name in RESOURCES})


def check_drivers(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Where nodes are labelled with them."""
    known = {node["metadata"]["name"]: _labels(node)[_DRIVER] for node in nodes if _DRIVER in _labels(node)}
    old = {name: version for name, version in known.items() if _branch(version) < OLDEST_DRIVER}
    if old:
        told = ", ".join(f"{name} has {version}" for name, version in sorted(old.items()))
        yield Finding(
            Level.PROBLEM, f"NVIDIA drivers are too old for CUDA 13 ({told}): install {OLDEST_DRIVER} or later"
        )


def _kind(node: Mapping[str, Any]) -> str:
    labels = _labels(node)
    product, driver = labels.get(_PRODUCT, "GPUs of unknown kind"), labels.get(_DRIVER)
    return f"{product}, driver {driver}" if driver else product


def _allocatable(node: Mapping[str, Any], resource: str) -> int:
    return int(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels


def _branch(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else OLDEST_DRIVER
