"""What a cluster changes on its host: cgroups, settings and mount points, and how they are put back."""

import errno
from pathlib import Path

import pytest

from sweyard_cluster import cgroups, host_state
from sweyard_cluster.__main__ import sentence
from sweyard_cluster.host import missing_packages


def test_cgroup_v1_is_made_in_every_hierarchy_with_its_cpus(tmp_path: Path) -> None:
    for name in ("memory", "unified"):
        (tmp_path / name).mkdir()
    cpuset = tmp_path / "cpuset"
    cpuset.mkdir()
    (cpuset / "cpuset.cpus").write_text("0-1")
    (tmp_path / "cpu").symlink_to(cpuset)
    for level in ("swy0", "swy0/node1"):
        (cpuset / level).mkdir()
        (cpuset / level / "cpuset.cpus").touch()
    cgroups.make(("swy0", "node1"), tmp_path)
    assert (tmp_path / "memory/swy0/node1").is_dir()
    assert not (tmp_path / "unified/swy0").exists()
    assert (cpuset / "swy0/node1/cpuset.cpus").read_text() == "0-1"


def test_cgroup_v2_hands_down_its_controllers(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "swy0").mkdir()
    (tmp_path / "swy0/cgroup.controllers").write_text("cpu memory\n")
    cgroups.make(("swy0", "node1"), tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "swy0/cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "swy0/node1").is_dir()


def test_cgroups_are_removed_from_the_leaves(tmp_path: Path) -> None:
    (tmp_path / "memory/swy0/node1/kubepods/pod1").mkdir(parents=True)
    (tmp_path / "memory/other").mkdir()
    cgroups.remove("swy0", tmp_path)
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["other"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with little, one of its settings high enough and one of the mount points in use."""
    for name, value in FORMER.items():
        (tmp_path / "root/proc/sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/proc/sys" / name).write_text(value)
    (tmp_path / "root/var/log/pods").mkdir(parents=True)
    return tmp_path / "root"


FORMER = {"net/ipv4/ip_forward": "0", "fs/inotify/max_user_instances": "128", "fs/inotify/max_user_watches": "999999"}


def settings(root: Path) -> dict[str, str]:
    return {name: (root / "proc/sys" / name).read_text() for name in FORMER}


def test_host_is_changed_and_put_back(root: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    host_state.prepare(saved, root)
    host_state.prepare(saved, root)
    assert list(settings(root).values()) == ["1", "8192", "999999"]
    assert (root / "var/lib/kubelet").is_dir()
    host_state.restore(saved, root)
    assert settings(root) == FORMER
    assert not (root / "var/lib/kubelet").exists()
    assert (root / "var/log/pods").is_dir()


def test_last_cluster_puts_the_host_back(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    host_state.prepare(first, root)
    host_state.prepare(second, root)
    host_state.bequeath(first, second)
    host_state.restore(second, root)
    assert settings(root) == FORMER
    assert not (root / "var/lib/cni").exists()


def test_missing_program_asks_for_its_package() -> None:
    assert missing_packages({"sh": "dash", "no-such-program": "its-package"}) == ["its-package"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left for something below /cache: make some"),
        (OSError(errno.ENOSPC, "No space left on device", "/cache/etcd"), "no space left for /cache/etcd: make some"),
        (PermissionError(errno.EACCES, "Permission denied", "/cache/bin"), "/cache/bin cannot be written"),
        (OSError(errno.EROFS, "Read-only file system", "/cache/bin"), "/cache/bin cannot be written"),
        (OSError(errno.EIO, "Input/output error", "/cache/bin"), "/cache/bin: Input/output error"),
    ],
    ids=["full", "full, and where", "not ours", "read-only", "broken"],
)
def test_what_the_system_refuses_is_told_with_its_place(error: OSError, told: str) -> None:
    assert sentence(error, Path("/cache")).startswith(told)
