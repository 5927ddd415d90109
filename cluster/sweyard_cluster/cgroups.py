"""A cgroup root for each node, in every hierarchy of the host."""

import contextlib
import errno
import time
from pathlib import Path

from .errors import ClusterError

ROOT = Path("/sys/fs/cgroup")


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Where node cgroups go: the one hierarchy of cgroup v2, or each controller's of v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink() and path.name != "unified")


def make(names: tuple[str, ...], root: Path = ROOT) -> None:
    """Make the nested cgroup `names` so that a kubelet can put pods under it; repeatable."""
    for hierarchy in hierarchies(root):
        parent = hierarchy
        for name in names:
            child = parent / name
            child.mkdir(exist_ok=True)
            inherit(parent, child)
            parent = child


def inherit(parent: Path, child: Path) -> None:
    """Give the child what a new cgroup lacks: its CPUs and memory nodes (v1), the controllers (v2)."""
    for setting in ("cpuset.cpus", "cpuset.mems"):
        if (parent / setting).exists() and (child / setting).exists() and not (parent / "cgroup.controllers").exists():
            (child / setting).write_text((parent / setting).read_text())
    if (parent / "cgroup.controllers").exists():
        enable = " ".join(f"+{name}" for name in (parent / "cgroup.controllers").read_text().split())
        (parent / "cgroup.subtree_control").write_text(enable)


def remove(name: str, root: Path = ROOT, deadline_seconds: float = 10) -> None:
    """Remove the cgroup and all below it, waiting for dying processes to leave; raises ClusterError if some stay."""
    ends = time.monotonic() + deadline_seconds
    while left := [hierarchy / name for hierarchy in hierarchies(root) if (hierarchy / name).exists()]:
        for top in left:
            for directory in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                _remove_one(directory)
            _remove_one(top)
        if time.monotonic() > ends:
            raise ClusterError(f"processes stay in the cgroup {left[0]}; see its cgroup.procs")
        time.sleep(0.05)


def _remove_one(directory: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            directory.rmdir()
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
