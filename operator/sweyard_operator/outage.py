"""What is said of an API server that fails: one line when that begins, one a minute, and one when it is over.

All that ask it fail then, some once a second, and would say the same. Pure: time is a parameter.
"""

from dataclasses import dataclass

TOLD_EACH_SECONDS = 60.0
CALM_SECONDS = 5.0
"""Without a failure until an outage is over: one reply among many failures does not end it."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the log."""

    is_warning: bool
    message: str


class Outage:
    """Told of each failure and each answer, and returns what there is to say. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._failed = 0.0
        self._told = 0.0
        self._num_failures = 0

    def failed(self, now: float, words: str) -> Notice | None:
        """A request or a watch got no answer, or a failure for one, beyond all retries."""
        self._failed = now
        if self._began is None:
            self._began, self._told, self._num_failures = now, now, 1
            return Notice(True, f"the API server fails: {words}")
        self._num_failures += 1
        if now - self._told < TOLD_EACH_SECONDS:
            return None
        self._told = now
        failures = f"{self._num_failures} failures in {now - self._began:.0f} s"
        return Notice(True, f"the API server still fails, {failures}, the last: {words}")

    def answered(self, now: float) -> Notice | None:
        """It did what it was asked."""
        if self._began is None or now - self._failed < CALM_SECONDS:
            return None
        began, self._began = self._began, None
        failures = f"{self._num_failures} failures in {self._failed - began:.0f} s"
        return Notice(False, f"the API server answers again, after {failures}")
