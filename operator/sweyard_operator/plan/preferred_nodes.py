"""Which nodes a sandbox should prefer: those whose disk has its image. Pure."""

from collections.abc import Collection, Mapping, Sequence

from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import ImageState, NodeReport

MAX_PREFERRED = 16
"""The scheduler looks at each preference for each node."""


def holds(report: NodeReport | None, image: str) -> bool:
    """The node says that it has `image`."""
    if report is None:
        return False
    said = report.images.get(image) or report.images.get(normalize(image))
    return said is not None and said.state is ImageState.CACHED


def good_nodes(image: str, reports: Mapping[str, NodeReport], avoided_nodes: Collection[str]) -> tuple[str, ...]:
    """Nodes that hold `image`; none if all do, since there is nothing to choose then."""
    holders = [node for node, report in reports.items() if holds(report, image)]
    if len(holders) == len(reports):
        return ()
    return tuple(sorted(node for node in holders if node not in avoided_nodes))


def some_nodes(nodes: Sequence[str], slot: int, count: int) -> tuple[str, ...]:
    """Of many, as many as a pod may name, from another one on for each slot."""
    start = slot % len(nodes) if nodes else 0
    return (*nodes[start:], *nodes[:start])[:count]
