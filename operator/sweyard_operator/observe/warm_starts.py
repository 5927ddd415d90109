"""Counts the sandboxes of a pool whose image was on their node before them: these start without a pull."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweyard_operator.cache_agent.protocol import NodeReport
from sweyard_operator.plan.preferred_nodes import holds

_REMEMBERED = 1_000


@dataclass(slots=True)
class WarmStarts:
    """By what nodes reported before a sandbox came to them. A node without a report counts as cold."""

    reports: Mapping[str, NodeReport] = field(default_factory=dict)
    """Of the last pass, by node."""
    _recent: deque[bool] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def record(self, node: str, image: str) -> bool:
        """A sandbox goes to `node`; `image` is what its container names. True if the node holds it."""
        is_warm = holds(self.reports.get(node), image)
        self._recent.append(is_warm)
        return is_warm

    def fraction(self) -> float | None:
        """Of the last 1,000 sandboxes; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None
