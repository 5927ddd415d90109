"""Why a pull failed, read out of what the container runtime says of it."""

import re

from sweyard_operator.cache_agent.protocol import PullFailure

_REASONS = (
    (PullFailure.RATE_LIMITED, r"429|toomanyrequests|too many requests"),
    (PullFailure.CORRUPT, r"unexpected commit digest|digest mismatch|unexpected digest|failed size validation"),
    (PullFailure.UNAUTHORIZED, r"401|403|unauthorized|authorization failed|access denied|denied:"),
    (PullFailure.NOT_FOUND, r"not found|404|manifest unknown|name unknown"),
    (PullFailure.DISK_FULL, r"no space left"),
    (PullFailure.TIMEOUT, r"deadline exceeded|timeout awaiting|handshake timeout"),
    (PullFailure.REGISTRY_UNREACHABLE, r"connection refused|no such host|i/o timeout|no route to host|eof|50[0-9] "),
)


def reason_in(message: str) -> PullFailure:
    """The runtime wraps the registry's answer in prose, and a kubelet wraps that."""
    for reason, pattern in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return PullFailure.PULL_FAILED
