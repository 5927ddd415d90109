"""How long each holder has been silent, on our own monotonic clock.

A Lease has lapsed when it was seen unchanged for its duration while the API server could be heard. Nobody's wall clock
counts; a restart or an outage starts every count from zero.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class LeaseClock:
    """Of one pool. `edition` of a Lease is whatever changes with a renewal; None stands for a Lease that is absent."""

    _seen: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    _outages: int = 0

    def hear(self, holder: str, edition: str | None, now: float) -> None:
        """Note what the Lease of `holder` looks like; only a change starts its count anew."""
        if holder not in self._seen or self._seen[holder][0] != edition:
            self._seen[holder] = (edition, now)

    def silent_seconds(self, holder: str, now: float) -> float:
        """Since the Lease last changed, or was first missed."""
        return now - self._seen[holder][1] if holder in self._seen else 0.0

    def hear_outages(self, outages: int, now: float) -> None:
        """Contact was lost in between: renewals may have gone unseen, so all counts start from zero."""
        if outages != self._outages:
            self._outages = outages
            self._seen = {holder: (edition, now) for holder, (edition, _) in self._seen.items()}

    def keep_only(self, holders: set[str]) -> None:
        """Forget all others."""
        self._seen = {holder: seen for holder, seen in self._seen.items() if holder in holders}
