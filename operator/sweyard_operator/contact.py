"""When the API server was last heard, what time it is there, and whether it fails.

A holder's Lease may be judged only over time in which we could have seen its renewal: `outages` counts the gaps.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from sweyard_operator.outage import Notice, Outage

logger = logging.getLogger(__name__)

_GAP_SECONDS = 15.0


class Contact:
    """Every reply passes through here. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: float | None = None
        self._offset = timedelta()
        self._outage = Outage()
        self.outages = 0
        """How often contact was lost for longer than a heartbeat can take."""

    def heard(self, date_header: str | None, *, serves: bool = False) -> None:
        """Something arrived, with the server's `Date` if it sent one; `serves`: the reply to a request, no failure."""
        now = self._clock()
        if self._last is not None and now - self._last > _GAP_SECONDS:
            self.outages += 1
        self._last = now
        if date_header:
            self._offset = parsedate_to_datetime(date_header) - datetime.now(UTC)
        if serves:
            _tell(self._outage.answered(now))

    def failed(self, error: Exception) -> None:
        """A request or a watch failed for a reason that is not its own; whoever asked need not log that."""
        _tell(self._outage.failed(self._clock(), str(error)))

    def silent_seconds(self) -> float:
        """Since the last reply; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last

    def server_time(self) -> datetime:
        """The API server's wall clock, good to a second: ages of objects by it do not depend on ours."""
        return datetime.now(UTC) + self._offset


def _tell(notice: Notice | None) -> None:
    if notice is not None:
        logger.log(logging.WARNING if notice.is_warning else logging.INFO, "%s", notice.message)
