"""Names in sandboxes: none. A resolver that does not exist, and no second try."""

from typing import Any

_SERVER = "127.0.0.1"
_OPTIONS = {"timeout": "1", "attempts": "1"}

DNS_CONFIG: dict[str, Any] = {
    "nameservers": [_SERVER],
    "options": [{"name": name, "value": value} for name, value in _OPTIONS.items()],
}
"""Of a pod with `dnsPolicy: None`."""
RESOLV_CONF = f"nameserver {_SERVER}\noptions {' '.join(f'{name}:{value}' for name, value in _OPTIONS.items())}"
"""What container runtimes make of it, less the last line's end."""
