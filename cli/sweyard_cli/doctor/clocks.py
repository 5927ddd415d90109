"""Do the nodes' clocks agree with the API server's: pure.

A kubelet renews its Lease every 10 seconds with the time of its own clock. A time that lies ahead of the API server's
is one of a clock that runs ahead; one that lies back by more than a few renewals, of one that is behind or of a kubelet
that is dead, which the node's readiness tells apart.
"""

from collections.abc import Mapping
from datetime import datetime

from sweyard_cli.doctor.finding import Finding, Level

MOST_AHEAD_SECONDS = 5.0
MOST_BEHIND_SECONDS = 40.0
"""The kubelet's default lease duration."""
_TOLD_NODES = 5


def check_clocks(renewed: Mapping[str, datetime], now: datetime) -> Finding | None:
    """`renewed` by name, of nodes that are Ready; `now` by the API server's clock. None without nodes."""
    behind = {name: (now - at).total_seconds() for name, at in renewed.items()}
    off = {name: by for name, by in behind.items() if not -MOST_AHEAD_SECONDS <= by <= MOST_BEHIND_SECONDS}
    if not renewed:
        return None
    if not off:
        return Finding(Level.OK, "the clocks of nodes agree with the API server's")
    told = ", ".join(f"{name} {_by(seconds)}" for name, seconds in sorted(off.items())[:_TOLD_NODES])
    more = f" and {len(off) - _TOLD_NODES} more" if len(off) > _TOLD_NODES else ""
    return Finding(
        Level.PROBLEM, f"clocks are off ({told}{more}): set up time synchronisation (chrony), since leases go by time"
    )


def _by(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'behind' if seconds > 0 else 'ahead'}"
