"""An image cache as the page draws it: a line a node, a cell an image. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sweyard_cli.cache.heat_map import describe_failures
from sweyard_cli.cache.holdings import Holdings
from sweyard_operator.cache_agent.protocol import ImageState


def cache_view(namespace: str, told: Holdings, budgets: Mapping[str, int | None]) -> dict[str, Any]:
    """`budgets` in bytes by node. A node's states are in the order of `images`; None: not for this node."""
    return {
        "where": namespace,
        "name": told.name,
        "condition": told.condition,
        "images": list(told.images),
        "nodes": [
            {
                "name": node,
                "states": [states.get(image) for image in told.images],
                "told": _counts(states, note=told.note(node)),
                "used_bytes": told.used_bytes[node],
                "budget_bytes": budgets.get(node),
            }
            for node, states in told.states.items()
        ],
        "failures": [
            (line, len(failure.nodes)) for failure, line in zip(told.failures, describe_failures(told), strict=True)
        ],
    }


def _counts(states: Mapping[str, ImageState], *, note: str) -> str:
    found = Counter(states.values())
    parts = [f"{found[state]:,} {state}" for state in ImageState if found[state]]
    return ", ".join([*parts, note] if note else parts)
