"""What image tools leave mounted goes with the last cluster."""

import argparse
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sweyard_cluster.commands import down
from sweyard_cluster.image_builders import Buildah, storage_driver
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.mounts import MOUNT_INFO, mounts_below
from sweyard_cluster.paths import Cache
from sweyard_cluster.terminal import Progress

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
60 22 254:0 /c/buildah /c/buildah rw - ext4 /dev/vda rw
61 60 0:40 / /c/buildah/a\\040b/merged rw shared:7 - overlay overlay rw
62 22 254:0 / /c/buildah-of-another rw - ext4 /dev/vda rw
"""


@pytest.mark.parametrize(
    ("directory", "points"),
    [
        ("/c/buildah", ["/c/buildah/a b/merged", "/c/buildah"]),
        ("/c/buildah/a b", ["/c/buildah/a b/merged"]),
        ("/c/nothing", []),
    ],
)
def test_mounts_are_undone_from_the_innermost(directory: str, points: list[str]) -> None:
    assert mounts_below(Path(directory), MOUNTS) == [Path(point) for point in points]


@pytest.mark.kubelet
def test_taking_all_clusters_down_unmounts_the_image_storage(tmp_path: Path, cluster_tool: Tool) -> None:
    tool = Tool(Cache(tmp_path), dict(os.environ), cluster_tool.progress)
    storage = tool.cache.image_storage
    storage.mkdir()
    assert storage_driver(storage) == "overlay"
    command = ["skopeo", "inspect", Buildah(storage, "overlay").source("localhost/none:1")]
    assert subprocess.run(command, capture_output=True, check=False).returncode
    assert mounts_below(tmp_path, MOUNT_INFO.read_text()) == [storage / "root/overlay"]

    for _ in range(2):
        down(tool, argparse.Namespace(all=True))
        assert mounts_below(tmp_path, MOUNT_INFO.read_text()) == []


def test_a_cache_without_images_has_nothing_to_unmount(tmp_path: Path) -> None:
    down(Tool(Cache(tmp_path), {}, Progress()), argparse.Namespace(all=True))
    assert list(tmp_path.iterdir()) == []


def test_builds_that_begin_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(storage_driver, [tmp_path / "storage"] * 16))
    assert len(found) == 1
    assert list((tmp_path / "storage").iterdir()) == []
