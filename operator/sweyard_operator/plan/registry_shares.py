"""Each node's part of the pulls that one registry serves at once: pure.

A part that was given is taken from what is left until the node's own report says that it gave it back, so that the sum
never exceeds the limit, however late reports are. A node keeps its part until it has its images: so it is told of it
twice, and at most `per_node` - 1 times more that its part grew, however many images it pulls. Less would not do, since
each node has to know its own part, and others wait for what it gives back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweyard_operator.cache_agent.image_names import registry_host
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, NodeReport

Shares = dict[str, dict[str, int]]
"""By node and registry."""


@dataclass(frozen=True, slots=True)
class _Need:
    """Of one node in one registry."""

    rank: tuple[bool, int]
    """Nodes whose images only fail come last, then by the position of what is needed first."""
    count: int


def share_pulls(
    placement: Mapping[str, Sequence[str]],
    reports: Mapping[str, NodeReport],
    told: Mapping[str, Assignment],
    *,
    limit: int,
    per_node: int,
) -> Shares | None:
    """None where the nodes cannot exceed the limit together, and never could."""
    # Else one node that comes and goes would have all the others told anew each time.
    is_shared = any(assignment.registry_pulls is not None for assignment in told.values())
    if len(placement) * per_node <= limit and not is_shared:
        return None
    needs: dict[str, dict[str, _Need]] = {}
    for node, images in placement.items():
        for host, need in _needs(images, reports.get(node)).items():
            needs.setdefault(host, {})[node] = need
    shares: Shares = {node: {} for node in placement}
    hosts = {*needs, *(host for node in placement for host in _taken(told.get(node), reports.get(node), per_node))}
    for host in sorted(hosts):
        taken = {node: _taken(told.get(node), reports.get(node), per_node).get(host, 0) for node in placement}
        for node, count in _share_one(needs.get(host, {}), taken, limit, per_node).items():
            shares[node][host] = count
    return shares


def _needs(images: Sequence[str], report: NodeReport | None) -> dict[str, _Need]:
    found: dict[str, _Need] = {}
    for position, image in enumerate(images):
        said = None if report is None else report.images.get(image)
        if said is not None and said.state is ImageState.CACHED:
            continue
        host = registry_host(image)
        rank = (said is not None and said.state is ImageState.FAILED, position)
        before = found.get(host)
        found[host] = _Need(rank, 1) if before is None else _Need(min(rank, before.rank), before.count + 1)
    return found


def _taken(told: Assignment | None, report: NodeReport | None, per_node: int) -> dict[str, int]:
    """What the node may be using: what it was told, and what it said last that it keeps to."""
    if told is None:
        return {}
    if told.registry_pulls is None:
        return {registry_host(image): per_node for image in told.images}
    said = {} if report is None or report.registry_pulls is None else report.registry_pulls
    return {host: max(told.registry_pulls.get(host, 0), said.get(host, 0)) for host in {*told.registry_pulls, *said}}


def _share_one(needs: Mapping[str, _Need], taken: Mapping[str, int], limit: int, per_node: int) -> dict[str, int]:
    waiting = sorted(needs, key=lambda node: (needs[node].rank, node))
    sound = [node for node in waiting if not needs[node].rank[0]]
    fair = max(1, limit // len(sound)) if sound else limit
    keeping = sound if sound else waiting
    # Also more than it has images left for: all that are sound get as much, and take no more.
    parts = {node: min(taken[node], fair, per_node) for node in keeping if taken[node]}
    free = limit - sum(max(count, parts.get(node, 0)) for node, count in taken.items())
    for level in range(1, per_node + 1):
        for node in waiting:
            has = parts.get(node, 0)
            if has < min(level, needs[node].count):
                # Of what the node has not given back yet it may have its part again.
                cost = 0 if has < taken[node] and node in keeping else 1
                if free >= cost and has < level and (level == 1 or has < fair):
                    parts[node] = has + 1
                    free -= cost
    return {node: count for node, count in parts.items() if count}
