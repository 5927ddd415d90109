"""Resident memory of this process, by the kernel's count (Linux). Imports nothing of ours: peers use it too."""

from pathlib import Path


def resident_mib() -> float:
    """Now."""
    return _field("VmRSS")


def peak_mib() -> float:
    """The most since the process began, or since `forget_peak`."""
    return _field("VmHWM")


def forget_peak() -> None:
    """The peak begins anew at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def _field(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return float(line.split()[1]) / 1024
