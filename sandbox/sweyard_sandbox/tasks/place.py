"""Putting a data set's files in place under runs that may be reading them: what is as it should be is not touched."""

import compileall
import filecmp
import shutil
from pathlib import Path

CACHED = "__pycache__"


def place_file(path: Path, content: bytes) -> None:
    """Whole, or not at all."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)


def place_tree(tree: Path, source: Path) -> None:
    """A compiled copy of `source`. It is made beside `tree`, and takes its place by renaming."""
    if tree.is_dir() and are_equal(tree, source):
        return
    coming, going = (tree.with_name(f".{tree.name}.{what}") for what in ("coming", "going"))
    for left in (coming, going):  # by a making that was killed
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(source, coming, ignore=shutil.ignore_patterns(CACHED))
    compileall.compile_dir(coming, quiet=2)
    if tree.exists():
        tree.rename(going)
    coming.rename(tree)
    shutil.rmtree(going, ignore_errors=True)


def are_equal(one: Path, other: Path) -> bool:
    """Whether two trees hold the same files with the same content, compiled ones aside."""
    names = files_of(one)
    if names != files_of(other):
        return False
    _, different, unread = filecmp.cmpfiles(one, other, names, shallow=False)
    return not different and not unread


def files_of(tree: Path) -> list[str]:
    """Relative paths, in order."""
    paths = (path.relative_to(tree) for path in tree.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in paths if CACHED not in path.parts)
