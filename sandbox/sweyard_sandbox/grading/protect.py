"""What of an agent's patch is not work on the task, and is left out before grading.

Tests are the grader's own; configuration of the runner, start-up hooks of the interpreter, links, and modules that
would hide the standard library's or the runner's can only change what the tests report.
"""

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sweyard_sandbox.grading.patch import Section, join_patch, split_patch

CONFIGURATION = {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"}
CONFIGURATION |= {"pyproject.toml", ".coveragerc", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg"}
TEST_FOLDERS = {"test", "tests"}
RUNNER_MODULES = {
    "pytest",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "exceptiongroup",
    "unittest",
}
METADATA_SUFFIXES = (".egg-info", ".dist-info")
"""Folders of what an installed package says of itself, plugins of pytest among it."""
BINARY_SUFFIXES = (".pyc", ".pyo", ".so", ".pth", ".egg-link")
OTHER_TEST_FILE = re.compile(r"_test\.go$|\.(test|spec)\.[cm]?[jt]sx?$")
"""Tests in Go, JavaScript and TypeScript."""
OTHER_CONFIGURATION = re.compile(r"(^|/)(\.cargo/.*|(jest|vitest|karma)\.conf(ig)?\.[^/]*|\.mocharc\.[^/]*)$")
"""Of cargo, whose settings can put a program before each test's, and of runners for JavaScript."""
TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests)\.py$")


@dataclass(frozen=True, slots=True)
class Kept:
    """A patch without what is not work."""

    patch: str
    dropped: tuple[str, ...]
    """`path: why`."""


def keep_work(
    patch: str,
    python_path: Sequence[str],
    test_files: Sequence[str] = (),
    own: Sequence[str] = (),
    allowed: Collection[str] = (),
) -> Kept:
    """Leave out sections that touch tests, configuration, links, hidden modules, or the grader's `own` paths.

    `allowed` are paths that are work whatever they look like.
    """
    tests = frozenset(test_files)
    sections = [
        (section, _objection(section, python_path, tests, own) or _objection_to_source(section, tests))
        for section in split_patch(patch)
    ]
    sections = [(section, "" if section.path in allowed else objection) for section, objection in sections]
    kept = join_patch([section for section, objection in sections if not objection])
    return Kept(kept, tuple(f"{section.path}: {objection}" for section, objection in sections if objection))


def _objection(section: Section, python_path: Sequence[str], test_files: frozenset[str], own: Sequence[str]) -> str:
    path = PurePosixPath(section.path)
    if path.is_absolute() or ".." in path.parts:
        return "outside the repository"
    if any(path.is_relative_to(each) for each in own):
        return "the grader's own"
    if section.path in test_files or _is_test(section.path) or TEST_FOLDERS & set(path.parts[:-1]):
        return "a test"
    if path.name in CONFIGURATION or path.name.endswith(BINARY_SUFFIXES) or _is_metadata(path):
        return "configuration of the tests' run"
    if OTHER_CONFIGURATION.search(section.path):
        return "configuration of the tests' run"
    if section.is_symlink:
        return "a symbolic link"
    if _hides_a_module(path, python_path):
        return "hides a module of Python or of the test runner"
    return ""


def _objection_to_source(section: Section, test_files: frozenset[str]) -> str:
    """A rename removes what it renames."""
    is_test = section.source in test_files or _is_test(section.source)
    return "moves a test" if section.source and is_test else ""


def _is_test(path: str) -> bool:
    return bool(TEST_FILE.search(path) or OTHER_TEST_FILE.search(path))


def _is_metadata(path: PurePosixPath) -> bool:
    return any(part.endswith(METADATA_SUFFIXES) for part in path.parts)


def _hides_a_module(path: PurePosixPath, python_path: Sequence[str]) -> bool:
    """Only Python does, and not a folder of another language that has such a name (`cmd`, `types`)."""
    if path.suffix != ".py":
        return False
    for root in ("", *python_path):
        base = PurePosixPath(root)
        if path.is_relative_to(base) and (inner := path.relative_to(base)).parts:
            name = inner.parts[0].removesuffix(".py")
            if name in RUNNER_MODULES or name in sys.stdlib_module_names:
                return True
    return False
