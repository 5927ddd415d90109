"""`ttlSecondsAfterFinished`: when a finished run is deleted, with all that belongs to it."""

from datetime import datetime, timedelta

from sweyard_operator.observe.run_snapshot import RunSnapshot


def expiry(snapshot: RunSnapshot, seconds: int | None) -> datetime | None:
    """When a finished run is deleted; None for never."""
    completion = snapshot.time("completionTime")
    return None if seconds is None or completion is None else completion + timedelta(seconds=seconds)
