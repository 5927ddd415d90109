"""What the nodes of a cache hold, by their own reports."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sweyard_operator.cache_agent.protocol import ImageState, NodeReport
from sweyard_operator.observe.image_cache import read_assigned, read_reports
from sweyard_operator.plan.image_reports import reports_of_pods

States = Mapping[str, ImageState]


@dataclass(frozen=True, slots=True)
class Failure:
    """One image that some nodes cannot pull, wait for or hold under a tag that moved, for one reason."""

    state: ImageState
    image: str
    reason: str
    message: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holdings:
    """One ImageCache."""

    name: str
    condition: str
    """Of Ready: its reason and message."""
    images: tuple[str, ...]
    """In order of need, as far as assignments tell."""
    states: Mapping[str, States]
    """By node and image; what a node was told to hold and said nothing of yet is waiting."""
    used_bytes: Mapping[str, int]
    """By node: of its runtime's whole image filesystem; 0 if it does not tell."""
    silent: frozenset[str]
    """Nodes that were told what to hold, and have not reported."""
    absent: frozenset[str]
    """Nodes that reported, and are told nothing now: cordoned or lost."""
    failures: tuple[Failure, ...]

    def note(self, node: str) -> str:
        """Where its states come from, if not from a report of now."""
        if node in self.silent:
            return "no report yet"
        return "as last said: takes no part now" if node in self.absent else ""


def plain_holdings(namespace: str, told: Holdings) -> dict[str, Any]:
    """For machines."""
    return {
        "namespace": namespace,
        "name": told.name,
        "condition": told.condition,
        "nodes": [
            {
                "name": node,
                "images": {image: state.value for image, state in states.items()},
                "used_bytes": told.used_bytes[node],
                "has_reported": node not in told.silent,
                "takes_part": node not in told.absent,
            }
            for node, states in told.states.items()
        ],
        "failures": [
            {**asdict(failure), "state": failure.state.value, "nodes": list(failure.nodes)} for failure in told.failures
        ],
    }


def read_holdings(
    cache: Mapping[str, Any], config_maps: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]]
) -> Holdings:
    """Pure: from objects as the API server has them."""
    name = str(cache["metadata"]["name"])
    reported = read_reports(config_maps)
    reports = reported or reports_of_pods(pods)
    assigned = read_assigned(name, config_maps)
    nodes = sorted({*reports, *assigned})
    states = {node: _states(reports.get(node), assigned.get(node, ())) for node in nodes}
    return Holdings(
        name=name,
        condition=_ready(cache),
        images=_in_order([*assigned.values(), *map(tuple, states.values())]),
        states=states,
        used_bytes={node: reports[node].used_bytes if node in reports else 0 for node in nodes},
        silent=frozenset(assigned).difference(reports),
        absent=frozenset(reported).difference(assigned),
        failures=_failures({node: said for node, said in reports.items() if node in assigned or not reported}),
    )


def _states(report: NodeReport | None, assigned: Sequence[str]) -> dict[str, ImageState]:
    said = {} if report is None else report.images
    return dict.fromkeys(assigned, ImageState.WAITING) | {image: one.state for image, one in said.items()}


def _in_order(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """One order that agrees with all lists as well as their positions tell."""
    ranks: dict[str, float] = {}
    for images in lists:
        for number, image in enumerate(images):
            ranks.setdefault(image, (number + 0.5) / len(images))
    return tuple(sorted(ranks, key=lambda image: (ranks[image], image)))


def _failures(reports: Mapping[str, NodeReport]) -> tuple[Failure, ...]:
    nodes: dict[tuple[ImageState, str, str, str], list[str]] = {}
    for node, report in sorted(reports.items()):
        for image, said in report.images.items():
            if said.state is ImageState.FAILED or said.reason is not None:
                key = (said.state, image, str(said.reason or "PullFailed"), said.message)
                nodes.setdefault(key, []).append(node)
    return tuple(Failure(*key, tuple(found)) for key, found in sorted(nodes.items()))


def _ready(cache: Mapping[str, Any]) -> str:
    conditions = (cache.get("status") or {}).get("conditions") or ()
    found = next((entry for entry in conditions if entry["type"] == "Ready"), None)
    return "the operator has not seen it yet" if found is None else f"{found['reason']}: {found['message']}"
