"""How long each of those that must renew something has been silent, on our own monotonic clock.

A Lease has lapsed, and a trainer has stalled, when its sign of life was seen unchanged for so long while the API server
could be heard. Nobody's wall clock counts; a restart or an outage starts every count from zero.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SilenceClock:
    """`edition` is whatever changes with a renewal; None stands for a sign of life that is absent."""

    _seen: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    _outages: int = 0

    def hear(self, who: str, edition: str | None, now: float) -> None:
        """Note what the sign of life of `who` looks like; only a change starts its count anew."""
        if who not in self._seen or self._seen[who][0] != edition:
            self._seen[who] = (edition, now)

    def silent_seconds(self, who: str, now: float) -> float:
        """Since it last changed, or was first missed."""
        return now - self._seen[who][1] if who in self._seen else 0.0

    def hear_outages(self, outages: int, now: float) -> None:
        """Contact was lost in between: renewals may have gone unseen, so all counts start from zero."""
        if outages != self._outages:
            self._outages = outages
            self._seen = {who: (edition, now) for who, (edition, _) in self._seen.items()}

    def keep_only(self, names: set[str]) -> None:
        """Forget all others."""
        self._seen = {who: seen for who, seen in self._seen.items() if who in names}
