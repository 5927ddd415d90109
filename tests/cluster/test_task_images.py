"""Images of tasks are named by what they are built from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweyard_cluster.errors import ClusterError
from sweyard_cluster.image_builders import Build
from sweyard_cluster.paths import Cache
from sweyard_cluster.task_images import build_task_images, content_digest
from sweyard_cluster.terminal import Progress


def make_dataset(root: Path) -> tuple[Path, Path]:
    recipe, tree = root / "images/gauge/Dockerfile", root / "trees/gauge"
    recipe.parent.mkdir(parents=True)
    tree.mkdir(parents=True)
    recipe.write_text("FROM base\n")
    (tree / "a.py").write_text("a = 1\n")
    return recipe, tree


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "recipe": lambda recipe, tree: recipe.write_text("FROM other\n"),
    "content": lambda recipe, tree: (tree / "a.py").write_text("a = 2\n"),
    "mode": lambda recipe, tree: (tree / "a.py").chmod(0o755),
    "name": lambda recipe, tree: (tree / "a.py").rename(tree / "b.py"),
    "link": lambda recipe, tree: (tree / "l").symlink_to("a.py"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_tag_changes_with_what_is_in_the_image(tmp_path: Path, change: Callable[[Path, Path], object]) -> None:
    recipe, tree = make_dataset(tmp_path)
    before = content_digest(recipe, tree)
    assert content_digest(recipe, tree) == before
    change(recipe, tree)
    assert content_digest(recipe, tree) != before


def test_bytecode_and_times_do_not_change_the_tag(tmp_path: Path) -> None:
    recipe, tree = make_dataset(tmp_path)
    before = content_digest(recipe, tree)
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__/a.pyc").write_bytes(b"1")
    (tree / "a.py").touch()
    assert content_digest(recipe, tree) == before


class NoBuilder:
    """Must not be asked."""

    has_registry = False

    def build(self, build: Build, progress: Progress) -> None:
        raise AssertionError(build)

    def size_bytes(self, tag: str) -> int | None:
        raise AssertionError(tag)

    def source(self, tag: str) -> str:
        raise AssertionError(tag)


def test_a_folder_without_images_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="sweyard tasks make"):
        build_task_images(tmp_path, tmp_path, Cache(tmp_path), NoBuilder(), Progress())
