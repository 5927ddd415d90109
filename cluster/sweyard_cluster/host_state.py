"""What nodes need changed on the host itself, and putting it back: kernel settings and mount points.

Nodes share the host's file system, so the places where each mounts its own directories must exist there.
"""

import contextlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

SYSCTLS = {"net/ipv4/ip_forward": 1, "fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
"""Least values that nodes need of the host's kernel."""
MOUNT_POINTS = ("var/lib/kubelet", "var/log/pods", "var/log/containers", "var/lib/cni")


@dataclass(frozen=True)
class Changes:
    """Former values of raised settings, and directories that were made, parents first."""

    sysctls: dict[str, int] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)


def read_changes(saved: Path) -> Changes:
    return Changes(**json.loads(saved.read_text())) if saved.exists() else Changes()


def prepare(saved: Path, root: Path = Path("/")) -> None:
    """Raise settings and make mount points, keeping in the file `saved` how things were; repeatable."""
    earlier = read_changes(saved)
    kernel = root / "proc/sys"
    former = {name: int((kernel / name).read_text()) for name in SYSCTLS}
    raised = {name: former[name] for name, least in SYSCTLS.items() if former[name] < least}
    missing = [place for place in MOUNT_POINTS if not (root / place).exists()]
    changes = Changes(raised | earlier.sysctls, earlier.directories + missing)
    saved.write_text(json.dumps(asdict(changes)))
    for name in raised:
        (kernel / name).write_text(str(SYSCTLS[name]))
    for place in missing:
        (root / place).mkdir(parents=True, exist_ok=True)


def restore(saved: Path, root: Path = Path("/")) -> None:
    """Put everything back; a directory that others have put something into stays."""
    changes = read_changes(saved)
    for name, value in changes.sysctls.items():
        (root / "proc/sys" / name).write_text(str(value))
    for place in reversed(changes.directories):
        with contextlib.suppress(OSError):
            (root / place).rmdir()


def bequeath(saved: Path, heir: Path) -> None:
    """Leave putting back to a cluster that still needs the changes."""
    ours, theirs = read_changes(saved), read_changes(heir)
    directories = theirs.directories + [place for place in ours.directories if place not in theirs.directories]
    heir.write_text(json.dumps(asdict(Changes(theirs.sysctls | ours.sysctls, directories))))
