"""Packages that are broken, damaged or hostile: a sentence, and nothing is left behind or lost."""

import os
import subprocess
import tarfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.sandbox.tasks.small_package import unittest_suite, write_repository

from sweyard_sandbox.tasks.mutation.find import Mutation, find_mutations
from sweyard_sandbox.tasks.source import SourceError, copy_repository, fetch_package
from sweyard_sandbox.tasks.suite import discover, measure
from sweyard_sandbox.tasks.verdict_journal import VerdictJournal
from sweyard_sandbox.tasks.verify import Verdict, Work, prepare_worker, verify


def archive_of(cache: Path, content: bytes, name: str = "six-1.0.tar.gz") -> Path:
    archive = cache / "archives" / "six-1.0" / name
    archive.parent.mkdir(parents=True)
    archive.write_bytes(content)
    return archive


def whole_archive(folder: Path) -> bytes:
    (folder / "six-1.0").mkdir()
    (folder / "six-1.0" / "six.py").write_text("x = 1\n" * 5_000)
    with tarfile.open(folder / "whole.tar.gz", "w:gz") as tar:
        tar.add(folder / "six-1.0", "six-1.0")
    return (folder / "whole.tar.gz").read_bytes()


ARCHIVES = {
    "empty": (b"", "six-1.0.tar.gz"),
    "no archive": (b"<html>proxy error</html>", "six-1.0.tar.gz"),
    "no zip archive": (b"<html>proxy error</html>", "six-1.0.zip"),
}


@pytest.mark.parametrize(("content", "name"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_cannot_be_unpacked_is_named_and_fetched_again(
    tmp_path: Path, content: bytes, name: str
) -> None:
    archive = archive_of(tmp_path, content, name)
    with pytest.raises(SourceError, match="is damaged, or no source archive; it is removed"):
        fetch_package("six==1.0", tmp_path)
    assert not archive.exists()


def test_an_archive_that_is_cut_off_leaves_no_half_of_a_tree(tmp_path: Path) -> None:
    whole = whole_archive(tmp_path)
    archive_of(tmp_path / "cache", whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="is damaged"):
        fetch_package("six==1.0", tmp_path / "cache")
    archive_of(tmp_path / "other", whole)
    assert (fetch_package("six==1.0", tmp_path / "other").root / "six.py").exists()
    assert not (tmp_path / "cache" / "sources" / "six-1.0").exists()


TREE = {
    "dist": True,  # a program of this name
    "build/lib/six.py": False,
    "venv/bin/python": False,
    "six.egg-info/PKG-INFO": False,
    "src/six.egg-info/PKG-INFO": False,
    "src/build/__init__.py": True,
    "src/six/dist/wheel.py": True,
    "tests/build/build/sample.py": True,
    "tests/__pycache__/test_six.pyc": False,
}
"""File -> whether it is source."""
PACKAGES_AT_TOP = {"build/__init__.py": True, "build/env.py": True, "dist/build-1.0.tar.gz": False}


@pytest.mark.parametrize("files", [TREE, PACKAGES_AT_TOP], ids=["modules below", "packages at the top"])
def test_folders_that_tools_leave_are_no_sources_and_packages_of_their_names_are(
    tmp_path: Path, files: dict[str, bool]
) -> None:
    tree = tmp_path / "six-1.0"
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    with tarfile.open(tmp_path / "six.tar.gz", "w:gz") as tar:
        tar.add(tree, "six-1.0")
    archive_of(tmp_path / "cache", (tmp_path / "six.tar.gz").read_bytes())
    roots = [fetch_package("six==1.0", tmp_path / "cache").root, copy_repository(tree, tmp_path / "other").root]
    found = [sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) for root in roots]
    assert found == [sorted(name for name, is_source in files.items() if is_source)] * 2


def test_the_mark_of_a_submodule_does_no_harm(tmp_path: Path) -> None:
    tree = tmp_path / "six-1.0"
    (tree / "tests").mkdir(parents=True)
    (tree / "tests" / ".git").write_text("gitdir: ../.git/modules/tests\n")
    with tarfile.open(tmp_path / "six.tar.gz", "w:gz") as tar:
        tar.add(tree, "six-1.0")
    archive_of(tmp_path / "cache", (tmp_path / "six.tar.gz").read_bytes())
    root = fetch_package("six==1.0", tmp_path / "cache").root
    assert [path.name for path in root.rglob("*")] == ["tests"]


def test_a_repository_that_git_does_not_read_is_told_in_gits_words(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", "")
    (repository / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(SourceError, match="git does not list its files: fatal: not a git repository"):
        copy_repository(repository, tmp_path / "cache")


def test_names_that_are_no_text_are_copied_all_the_same(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", "")
    odd = os.fsdecode(b"odd-\xff.txt")
    (repository / odd).touch()
    subprocess.run(["git", "init", "-q", repository], check=True)
    assert (copy_repository(repository, tmp_path / "cache").root / odd).exists()


def test_a_cache_inside_the_repository_is_refused(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", "")
    with pytest.raises(SourceError, match="holds the cache"):
        copy_repository(repository, repository / "cache")


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", "")
    (repository / "link").symlink_to("nowhere")
    with pytest.raises(SourceError, match="link cannot be copied"):
        copy_repository(repository, tmp_path / "cache")


def test_a_project_file_that_is_no_toml_declares_no_licence(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", "")
    (repository / "pyproject.toml").write_text("[project\n")
    assert copy_repository(repository, tmp_path / "cache").licence == "not declared"


def test_files_that_are_no_python_or_no_utf8_are_in_nobodys_way(tmp_path: Path) -> None:
    root = write_repository(tmp_path / "gauge", "gauge", unittest_suite("gauge"))
    (root / "tests" / "test_of_python_2.py").write_text("print 'hello'\n")
    (root / "gauge" / "older.py").write_bytes(b"# -*- coding: latin-1 -*-\nNAME = '\xfc'\n")
    suite = discover(root)
    assert suite.coverage
    assert suite.source_files == ("gauge/__init__.py", "gauge/core.py")


def test_a_suite_that_hangs_ends_with_all_that_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    hangs = f"""
import subprocess
def test_hangs():
    child = subprocess.Popen(["sleep", "1000"])
    open({str(mark)!r}, "w").write(str(child.pid))
    child.wait()
"""
    root = write_repository(tmp_path / "gauge", "gauge", hangs)
    with pytest.raises(SourceError, match="do not end within 8 s"):
        measure(root, "pytest", (".",), ("tests/test_core.py",), timeout_seconds=8)
    assert is_gone(int(mark.read_text()))


def is_gone(pid: int) -> bool:
    while Path(f"/proc/{pid}").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
        time.sleep(0.01)
    return True


def test_a_suite_that_removes_its_folder_leaves_the_tree_whole(tmp_path: Path) -> None:
    removes = """
import os, shutil
def test_removes():
    shutil.rmtree(os.getcwd())
    os._exit(3)
"""
    root = write_repository(tmp_path / "gauge", "gauge", removes)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SourceError, match="its tests ended their process: it said nothing"):
        discover(root)
    assert sorted(tmp_path.rglob("*")) == before


def mutation_to(root: Path, function: str, new: str) -> Mutation:
    found = find_mutations("gauge/core.py", (root / "gauge/core.py").read_text())
    return next(each for each in found if (each.function, each.new) == (function, new))


def test_a_bug_with_which_tests_remove_the_tree_costs_the_next_one_nothing(tmp_path: Path) -> None:
    """In a process of its own, as bugs are: tests get little memory, and this one may have taken more already."""
    removes = """
import os, shutil
from gauge.core import clamp, first
def test_clamp():
    if clamp(5, 1, 3) != 3:
        shutil.rmtree(os.getcwd())
    assert clamp(0, 1, 3) == 1
def test_first():
    assert first([], 7) == 7
    assert first([None, 3]) == 3
"""
    root = write_repository(tmp_path / "gauge", "gauge", removes)
    tests = tuple(f"tests/test_core.py::test_{name}" for name in ("clamp", "first"))
    one, other = mutation_to(root, "clamp", "<"), mutation_to(root, "first", "is")
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=prepare_worker, initargs=("pytest", str(tmp_path))
    ) as worker:
        assert worker.submit(verify, Work(root, "pytest", (".",), one, tests)).result().rejected
        assert worker.submit(verify, Work(root, "pytest", (".",), other, tests)).result().failures


def test_a_line_of_the_journal_that_was_never_written_costs_its_verdict_alone(tmp_path: Path) -> None:
    root = write_repository(tmp_path / "gauge", "gauge", "")
    one, other = mutation_to(root, "clamp", "<"), mutation_to(root, "first", "is")
    path = tmp_path / "verified.jsonl"
    VerdictJournal(path, "gauge").put(one, Verdict("hangs"))
    with path.open("ab") as file:
        file.write(bytes(40) + b'\n[1]\n{"a": 1}\n\xff\n')
    VerdictJournal(path, "gauge").put(other, Verdict("survives"))
    journal = VerdictJournal(path, "gauge")
    assert (journal.get(one), journal.get(other)) == (Verdict("hangs"), Verdict("survives"))
