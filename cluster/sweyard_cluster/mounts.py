"""Mounts that outlive the program that made them: skopeo binds the image storage onto itself and leaves it so."""

import re
from pathlib import Path

from .network import command

MOUNT_INFO = Path("/proc/self/mountinfo")
_MOUNT_POINT_FIELD = 4


def mounts_below(directory: Path, mount_info: str) -> list[Path]:
    """Mount points in or at `directory`, the last mounted first: the order in which they can be unmounted."""
    escaped = [line.split()[_MOUNT_POINT_FIELD] for line in mount_info.splitlines()]
    points = [Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)) for text in escaped]
    return [point for point in reversed(points) if point.is_relative_to(directory)]


def unmount_below(directory: Path) -> list[Path]:
    """Unmount all in or at `directory`; what was. Raises ClusterError where that is in use, or for want of root."""
    points = mounts_below(directory.resolve(), MOUNT_INFO.read_text())
    for point in points:
        command("umount", str(point))
    return points
