"""Stops a pool from making one sandbox after the other that fails for the same reason.

Every sandbox that fails before it ever served counts against its reason, every one that becomes Ready counts for the
pool; both fade by half in five minutes. While failures of one reason outweigh successes the breaker is open: one
sandbox at a time is tried, and the first that becomes Ready closes it.
"""

from dataclasses import dataclass, field

from sweyard_operator.plan.fault_ledger import FaultLedger
from sweyard_operator.plan.sandbox import Failure

_LEAST_FAILURES = 8.0
"""Fewer are the business of the image's or the node's own pause."""
_PROBE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Breach:
    """The breaker is open."""

    failure: Failure
    """The latest of its kind."""
    probe_in_seconds: float
    """Until one more sandbox may be tried; 0: now, if none is being tried."""


@dataclass(slots=True)
class StartBreaker:
    """Of one pool. `now` is monotonic seconds throughout."""

    _failures: FaultLedger[str] = field(default_factory=FaultLedger)
    _successes: FaultLedger[str] = field(default_factory=FaultLedger)
    _latest: dict[str, tuple[Failure, float]] = field(default_factory=dict)

    def record_failure(self, failure: Failure, now: float) -> None:
        """A sandbox failed before it ever served."""
        self._failures.record(failure.reason, now)
        self._latest[failure.reason] = (failure, now)

    def record_success(self, now: float) -> None:
        """A sandbox became Ready."""
        if self.find_breach(now) is not None:
            self._failures = FaultLedger()
        self._successes.record("", now)

    def find_breach(self, now: float) -> Breach | None:
        """None while most sandboxes come up, or too few failed to tell."""
        for reason in self._failures.at_least(_LEAST_FAILURES, now):
            if self._failures.score(reason, now) > self._successes.score("", now):
                failure, failed_at = self._latest[reason]
                return Breach(failure, max(0.0, failed_at + _PROBE_SECONDS - now))
        return None
