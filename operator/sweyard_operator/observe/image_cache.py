"""What there is of an ImageCache: its nodes, their reports, its children."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sweyard_api.constants import LABEL_CACHE
from sweyard_operator.cache_agent.envelope import sealed, unseal
from sweyard_operator.cache_agent.protocol import (
    ASSIGNMENT_KEY,
    REPORT_KEY,
    Assignment,
    NodeReport,
    assignment_name,
    report_name,
)
from sweyard_operator.observe.listed_images import listed_images
from sweyard_operator.plan.image_need import NO_NEED, Need
from sweyard_operator.plan.quantities import parse_quantity
from sweyard_operator.resources import Manifest, annotations_of, labels_of, name_of

ROLE_ASSIGNMENT = "assignment"
ROLE_REPORT = "report"
LABEL_ROLE = "sweyard.dev/cache-role"
"""On a ConfigMap of a cache: assignment or report."""
LABEL_HOLDS = "sweyard.dev/cache-node"
"""On a holding pod of mode `pods`: hash of its node, images and pull secrets."""
ANNOTATION_NODE = "sweyard.dev/node"
"""Of an assignment and of a holding pod: the node that it is for."""
_PARSED = 8_192
"""Reports, and as many assignments, to remember."""


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
    agents: tuple[Manifest, ...] = ()
    """What makes the agents: DaemonSet, ServiceAccount, RoleBinding."""
    told: Mapping[str, Assignment] = field(default_factory=dict)
    """By node: its agent's last assignment."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By image: bytes, and of these what its family shares, where the `imagesFrom` ConfigMap tells."""
    disk_bytes: Mapping[str, int] = field(default_factory=dict)
    """By node: size of the disk that pods and images are on, as far as it is known."""
    absent_nodes: tuple[str, ...] = ()
    """Nodes that match, and take no part now: cordoned or not Ready."""
    need: Need = NO_NEED
    """What the holders of its pools ask for."""
    empty_source: str | None = None
    """Name of the `imagesFrom` ConfigMap, if it exists and lists nothing."""
    agent_warning: str = ""
    """What was last said of the DaemonSet while it lacks pods: a namespace may forbid them."""


def usable_nodes(nodes: Iterable[Manifest], selector: Mapping[str, str]) -> tuple[str, ...]:
    """Names of nodes that are Ready, schedulable and match: a cordoned or lost node is not waited for."""
    return tuple(sorted(name_of(node) for node in nodes if _is_usable(node, selector)))


def absent_nodes(nodes: Iterable[Manifest], selector: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the others that match."""
    return tuple(sorted(name_of(node) for node in nodes if _matches(node, selector) and not _is_usable(node, selector)))


def _is_usable(node: Manifest, selector: Mapping[str, str]) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions") or ())
    return ready and _matches(node, selector)


def _matches(node: Manifest, selector: Mapping[str, str]) -> bool:
    labels = labels_of(node)
    return all(labels.get(key) == value for key, value in selector.items())


def wanted_images(inline: Iterable[str], source: Manifest | None) -> tuple[str, ...]:
    """Inline images, then those that the ConfigMap lists; each once."""
    return tuple(dict.fromkeys([*inline, *(listed_images(source) if source is not None else ())]))


def read_reports(config_maps: Iterable[Manifest]) -> dict[str, NodeReport]:
    """Reports by node. One that cannot be read, or is of another node than its name says, counts as absent: its agent
    writes it anew."""
    found = {}
    for item in config_maps:
        report = _parse_report(sealed(item, REPORT_KEY)) if labels_of(item).get(LABEL_ROLE) == ROLE_REPORT else None
        if report is not None and name_of(item) == report_name(labels_of(item).get(LABEL_CACHE, ""), report.node):
            found[report.node] = report
    return found


def read_assigned(cache: str, config_maps: Iterable[Manifest]) -> dict[str, tuple[str, ...]]:
    """What each node was last told to hold, also one that never answered."""
    found = list(config_maps)
    nodes = (annotations_of(item).get(ANNOTATION_NODE) for item in found)
    told = read_told(cache, found, [node for node in nodes if node is not None])
    return {node: assignment.images for node, assignment in told.items()}


def read_told(cache: str, config_maps: Iterable[Manifest], nodes: Iterable[str]) -> dict[str, Assignment]:
    """Assignments by node. One that cannot be read counts as absent: it is written anew."""
    of_role = (item for item in config_maps if labels_of(item).get(LABEL_ROLE) == ROLE_ASSIGNMENT)
    texts = {name_of(item): sealed(item, ASSIGNMENT_KEY) for item in of_role}
    found = {node: _parse_assignment(texts.get(assignment_name(cache, node), "")) for node in nodes}
    return {node: assignment for node, assignment in found.items() if assignment is not None}


# A pass over 1,000 nodes reads 1,000 texts, of which one has changed.
@lru_cache(maxsize=_PARSED)
def _parse_report(text: str) -> NodeReport | None:
    try:
        return NodeReport.model_validate_json(unseal(text))
    except ValueError:
        return None


@lru_cache(maxsize=_PARSED)
def _parse_assignment(text: str) -> Assignment | None:
    try:
        return Assignment.model_validate_json(unseal(text))
    except ValueError:
        return None


def disk_bytes_of(nodes: Iterable[Manifest]) -> dict[str, int]:
    """Size of each node's disk, where its kubelet tells."""
    capacities = {name_of(node): ((node.get("status") or {}).get("capacity") or {}) for node in nodes}
    return {
        name: int(parse_quantity(capacity["ephemeral-storage"]))
        for name, capacity in capacities.items()
        if "ephemeral-storage" in capacity
    }
