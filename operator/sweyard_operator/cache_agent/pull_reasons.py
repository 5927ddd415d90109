"""Why a pull failed, read out of what the container runtime says of it, and what to do where that is known."""

import re
from collections.abc import Mapping

from sweyard_operator.cache_agent.image_names import registry_host
from sweyard_operator.cache_agent.protocol import PullFailure

# An image's name may have any number or word in it (django-11429, geofence): a status stands alone, after a colon.
_REASONS = (
    (PullFailure.RATE_LIMITED, r": 429\b|toomanyrequests|too many requests"),
    (
        PullFailure.CORRUPT,
        r"unexpected commit digest|digest mismatch|unexpected digest|failed size validation|byte manifest|invalid desc",
    ),
    (PullFailure.CERTIFICATE_UNKNOWN, r"x509: |failed to verify certificate|tls: bad certificate"),
    (PullFailure.PLAIN_HTTP, r"server gave http response to https client"),
    (PullFailure.UNAUTHORIZED, r": 40[13]\b|unauthorized|authorization failed|access denied|denied:"),
    (PullFailure.NOT_FOUND, r"not found|: 404\b|manifest unknown|name unknown"),
    (PullFailure.DISK_FULL, r"no space left"),
    (PullFailure.TIMEOUT, r"deadline exceeded|timeout awaiting|handshake timeout"),
    (
        PullFailure.REGISTRY_UNREACHABLE,
        r"connection refused|no such host|i/o timeout|no route to host|\beof\b|: 50[0-9]\b|stopped after \d+ redirects",
    ),
)
_REMEDIES: Mapping[PullFailure, str] = {
    PullFailure.CERTIFICATE_UNKNOWN: (
        "the node's container runtime does not trust the certificate of {host}: put the CA that signed it on every "
        "node and name it in /etc/containerd/certs.d/{host}/hosts.toml (`ca`), or renew the certificate"
    ),
    PullFailure.PLAIN_HTTP: (
        "{host} speaks plain HTTP: tell the container runtime of every node so in "
        '/etc/containerd/certs.d/{host}/hosts.toml (`[host."http://{host}"]`), or give it a certificate'
    ),
}
_MAX_CHARACTERS, _LEAST_CHARACTERS = 400, 150


def reason_in(message: str) -> PullFailure:
    """The runtime wraps the registry's answer in prose, and a kubelet wraps that."""
    for reason, pattern in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return PullFailure.PULL_FAILED


def explain(image: str, reason: PullFailure, message: str, *, remedy: str = "") -> str:
    """What to do first, where that is not plain from the reason; then the runtime's own words, shortened."""
    remedy = remedy or _REMEDIES.get(reason, "").format(host=registry_host(image))
    remedy = f"{remedy}; " if remedy else ""
    return remedy + _shorten(message, max(_LEAST_CHARACTERS, _MAX_CHARACTERS - len(remedy)))


def _shorten(words: str, most: int) -> str:
    """Errors are wrapped: what it is about comes first, and the cause last."""
    head = most // 3
    return words if len(words) <= most else f"{words[:head]} ... {words[head + 5 - most :]}"
