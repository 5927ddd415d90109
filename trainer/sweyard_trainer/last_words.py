"""What a process says before it ends: the kubelet copies it into the pod's status, the operator into the run's."""

from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
_MAX_CHARACTERS = 4_000
"""The kubelet keeps 4096 bytes."""


def tell_why(sentence: str, log: Path = TERMINATION_LOG) -> None:
    """Write the reason of the end where the kubelet looks for it; outside a pod there is no such file."""
    if log.exists():
        log.write_text(sentence[:_MAX_CHARACTERS], encoding="utf-8")
