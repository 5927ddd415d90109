"""How long a run that found no place waits before it tries again."""

import hashlib

_FIRST_SECONDS = 60.0
_MOST_SECONDS = 900.0


def pause_seconds(uid: str, failures: int) -> float:
    """60 s, doubled each time up to 15 minutes, times 0.5 to 1.5 by the run's UID and the count."""
    digest = hashlib.sha256(f"{uid}/{failures}".encode()).digest()
    spread = 0.5 + int.from_bytes(digest[:4], "big") / 2**32
    return min(_FIRST_SECONDS * 2.0 ** min(failures - 1, 16), _MOST_SECONDS) * spread
