"""What there is of an ImageCache: its nodes, their reports, its children."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from sweyard_operator.cache_agent.protocol import REPORT_KEY, NodeReport
from sweyard_operator.observe.listed_images import listed_images
from sweyard_operator.resources import Manifest, labels_of, name_of

ROLE_ASSIGNMENT = "assignment"
ROLE_REPORT = "report"
LABEL_ROLE = "sweyard.dev/cache-role"
"""On a ConfigMap of a cache: assignment or report."""
LABEL_HOLDS = "sweyard.dev/cache-node"
"""On a holding pod of mode `pods`: hash of its node and images."""


@dataclass(frozen=True, slots=True)
class ObservedCache:
    """One ImageCache and what belongs to it."""

    images: tuple[str, ...]
    """Wanted, in order of need, each once."""
    missing_source: str | None
    """Name of the `imagesFrom` ConfigMap, if it does not exist."""
    nodes: tuple[str, ...]
    """Nodes that take part now."""
    reports: Mapping[str, NodeReport]
    """By node; only of nodes that take part."""
    config_maps: tuple[Manifest, ...]
    """Assignments and reports that exist, also of nodes that are gone."""
    pods: tuple[Manifest, ...]
    """Agent pods, or the pods that hold images in mode `pods`."""


def usable_nodes(nodes: Iterable[Manifest], selector: Mapping[str, str]) -> tuple[str, ...]:
    """Names of nodes that are Ready, schedulable and match: a cordoned or lost node is not waited for."""
    return tuple(sorted(name_of(node) for node in nodes if _is_usable(node, selector)))


def _is_usable(node: Manifest, selector: Mapping[str, str]) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    labels = labels_of(node)
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions") or ())
    return ready and all(labels.get(key) == value for key, value in selector.items())


def wanted_images(inline: Iterable[str], source: Manifest | None) -> tuple[str, ...]:
    """Inline images, then those that the ConfigMap lists; each once."""
    return tuple(dict.fromkeys([*inline, *(listed_images(source) if source is not None else ())]))


def read_reports(config_maps: Iterable[Manifest], nodes: Iterable[str]) -> dict[str, NodeReport]:
    """Reports by node. One that cannot be read counts as absent: its agent writes it anew."""
    wanted, found = set(nodes), {}
    for config_map in config_maps:
        if labels_of(config_map).get(LABEL_ROLE) != ROLE_REPORT:
            continue
        try:
            report = NodeReport.model_validate_json((config_map.get("data") or {}).get(REPORT_KEY, ""))
        except ValidationError:
            continue
        if report.node in wanted:
            found[report.node] = report
    return found
