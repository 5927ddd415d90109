"""How long a server that refuses wants to be left alone (RFC 9110, 10.2.3)."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

DEFAULT_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 3_600.0


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, of a date by the server's own clock; None where it does not say."""
    text = headers.get("Retry-After")
    if text is None:
        return None
    seconds = float(text) if text.strip().isdecimal() else _seconds_until(text, headers.get("Date", ""))
    return min(_LONGEST_PAUSE_SECONDS, seconds)


def _seconds_until(date: str, now: str) -> float:
    try:
        seconds = (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError):
        return DEFAULT_PAUSE_SECONDS
    return seconds if seconds > 0.0 else DEFAULT_PAUSE_SECONDS
