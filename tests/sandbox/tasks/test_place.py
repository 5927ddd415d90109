"""A data set's files are put in place whole, and left alone where they are as they should be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweyard_sandbox.tasks.place import place_file, place_tree


def write(tree: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def inodes(tree: Path) -> dict[str, int]:
    return {str(path.relative_to(tree)): path.stat().st_ino for path in [tree, *tree.rglob("*")]}


def sources(tree: Path) -> dict[str, str]:
    return {
        str(path.relative_to(tree)): path.read_text()
        for path in tree.rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    }


FILES = {"pkg/__init__.py": "", "pkg/core.py": "x = 1\n"}


def test_a_tree_in_place_is_compiled_and_not_touched_again(tmp_path: Path) -> None:
    source, tree = write(tmp_path / "source", FILES), tmp_path / "trees" / "pkg"
    place_tree(tree, source)
    before = inodes(tree)
    place_tree(tree, source)
    assert inodes(tree) == before
    assert sources(tree) == FILES
    assert list(tree.rglob("core.*.pyc"))


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "pkg/core.py").write_text("x = 2\n"),
        lambda tree: (tree / "pkg/more.py").write_text(""),
        lambda tree: (tree / "pkg/core.py").unlink(),
    ],
    ids=["changed", "added", "removed"],
)
def test_a_tree_that_differs_is_replaced_as_a_whole(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """A reader that is in the old one keeps it; nothing is ever half there under the name."""
    source, tree = write(tmp_path / "source", FILES), tmp_path / "trees" / "pkg"
    place_tree(tree, source)
    before = tree.stat().st_ino
    change(tree)
    place_tree(tree, source)
    assert tree.stat().st_ino != before
    assert sources(tree) == FILES
    assert [path.name for path in tree.parent.iterdir()] == ["pkg"]


def test_what_a_killed_making_left_is_no_obstacle(tmp_path: Path) -> None:
    source, trees = write(tmp_path / "source", FILES), tmp_path / "trees"
    write(trees / ".pkg.coming", {"half": ""})
    write(trees / ".pkg.going", {"old": ""})
    place_tree(trees / "pkg", source)
    assert sources(trees / "pkg") == FILES
    assert [path.name for path in trees.iterdir()] == ["pkg"]


@pytest.mark.parametrize(("content", "is_kept"), [(b"same", True), (b"other", False)])
def test_a_file_is_replaced_only_by_another_content(tmp_path: Path, content: bytes, is_kept: bool) -> None:
    path = tmp_path / "folder" / "file"
    place_file(path, b"same")
    with path.open("rb") as reader:  # keeps its number from being given again
        place_file(path, content)
        assert (path.stat().st_ino == Path(f"/proc/self/fd/{reader.fileno()}").stat().st_ino) is is_kept
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
