"""Names in sandboxes: none. A resolver that does not exist, and no second try."""

from itertools import permutations
from typing import Any

_SERVER = "127.0.0.1"
_OPTIONS = {"timeout": "1", "attempts": "1"}

DNS_CONFIG: dict[str, Any] = {
    "nameservers": [_SERVER],
    "options": [{"name": name, "value": value} for name, value in _OPTIONS.items()],
}
"""Of a pod with `dnsPolicy: None`."""
RESOLV_CONFS = tuple(
    f"nameserver {_SERVER}\noptions {' '.join(options)}"
    for options in permutations(f"{name}:{value}" for name, value in _OPTIONS.items())
)
"""What container runtimes make of it, less the last line's end: a kubelet hands them the options in any order
(kubernetes: mergeDNSOptions in pkg/kubelet/network/dns/dns.go)."""
