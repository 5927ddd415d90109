"""When the API server was last heard, and what time it is there.

A holder's Lease may be judged only over time in which we could have seen its renewal: `outages` counts the gaps.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_GAP_SECONDS = 15.0


class Contact:
    """Every reply passes through here. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: float | None = None
        self._offset = timedelta()
        self.outages = 0
        """How often contact was lost for longer than a heartbeat can take."""

    def heard(self, date_header: str | None) -> None:
        """A reply arrived, with the server's `Date` if it sent one."""
        now = self._clock()
        if self._last is not None and now - self._last > _GAP_SECONDS:
            self.outages += 1
        self._last = now
        if date_header:
            self._offset = parsedate_to_datetime(date_header) - datetime.now(UTC)

    def silent_seconds(self) -> float:
        """Since the last reply; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last

    def server_time(self) -> datetime:
        """The API server's wall clock, good to a second: ages of objects by it do not depend on ours."""
        return datetime.now(UTC) + self._offset
