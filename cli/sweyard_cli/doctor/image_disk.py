"""Do budgets for images stay below what makes kubelets remove images themselves: pure.

CRI has no pinning that a cache could use: what the kubelet collects is gone, and pulled again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level

DEFAULT_COLLECTION_PERCENT = 85.0
DEFAULT_EVICTION_PERCENT = 15.0
_TOLD_NODES = 5
_NO_AGE = "0s"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")


@dataclass(frozen=True, slots=True)
class NodeDisk:
    """The disk of one node."""

    name: str
    num_bytes: int
    collected_from: float
    """Share of the disk in use from which on the kubelet removes images or pods."""
    is_told: bool
    """By the kubelet; else these are its defaults."""
    max_age: str = _NO_AGE
    """How long the kubelet lets an image lie unused, however much room there is."""


def read_collection(config: Mapping[str, Any]) -> float:
    """Share of the disk, of a kubelet's configuration (`configz`)."""
    high = float(config.get("imageGCHighThresholdPercent", DEFAULT_COLLECTION_PERCENT))
    hard = config.get("evictionHard") or {}
    signals = [hard.get(name, "") for name in ("imagefs.available", "nodefs.available")]
    free = [float(found[1]) for text in signals if (found := _PERCENT.fullmatch(str(text))) is not None]
    return min([high, *(100.0 - percent for percent in free)]) / 100.0


def read_max_age(config: Mapping[str, Any]) -> str:
    """See NodeDisk.max_age."""
    return str(config.get("imageMaximumGCAge") or _NO_AGE)


def default_collection() -> float:
    """Share of the disk, of a kubelet that was not asked."""
    return min(DEFAULT_COLLECTION_PERCENT, 100.0 - DEFAULT_EVICTION_PERCENT) / 100.0


def check_budgets(cache: str, budgets: Mapping[str, int], disks: Sequence[NodeDisk]) -> Iterator[Finding]:
    """`budgets` in bytes by node, as the operator tells them to its agents."""
    over = [disk for disk in disks if budgets.get(disk.name, 0) > disk.collected_from * disk.num_bytes]
    unknown = sorted(set(disk.name for disk in disks if disk.name not in budgets))
    if over:
        first = over[0]
        yield Finding(
            Level.PROBLEM,
            f"ImageCache {cache}: the budget of {_names(over)} is {_gib(budgets[first.name])}, but kubelets remove "
            f"images from {first.collected_from:.0%} of {_gib(first.num_bytes)} on: set diskBudget below "
            f"{_gib(first.collected_from * first.num_bytes)} or raise imageGCHighThresholdPercent",
        )
    if unknown:
        yield Finding(
            Level.PROBLEM,
            f"ImageCache {cache}: the disks of {', '.join(unknown[:_TOLD_NODES])} are of unknown size, so that nothing "
            "keeps images there below the kubelet's limits: set diskBudget",
        )
    if aged := [disk for disk in disks if disk.max_age != _NO_AGE]:
        yield Finding(
            Level.WARNING,
            f"ImageCache {cache}: the kubelets of {_names(aged)} remove what no pod has used for {aged[0].max_age}, "
            "which is then pulled again: set imageMaximumGCAge: 0s there",
        )
    if not over and not unknown:
        guessed = "" if all(disk.is_told for disk in disks) else " (by the kubelet's defaults; it could not be asked)"
        yield Finding(Level.OK, f"ImageCache {cache}: budgets stay below the kubelets' own limits{guessed}")


def _names(disks: Sequence[NodeDisk]) -> str:
    more = f" and {len(disks) - _TOLD_NODES} more" if len(disks) > _TOLD_NODES else ""
    return ", ".join(disk.name for disk in disks[:_TOLD_NODES]) + more


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.0f}Gi"
