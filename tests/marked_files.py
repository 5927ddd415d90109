"""pytest plugin: `--only-marked MARK` passes over files that hold no test with one of these marks, unimported.

To import every test takes a process 20 seconds. A test has its marks from its own file or from a conftest.py above it,
and they are written `pytest.mark.MARK` there.
"""

import re
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-marked",
        action="append",
        default=[],
        metavar="MARK",
        help="pass over files without tests that have this mark; again for further marks",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    marks = config.getoption("only_marked")
    return True if marks and not may_hold(collection_path, marks, config.rootpath) else None


def may_hold(path: Path, marks: list[str], root: Path) -> bool:
    """Whether a file, or one below a folder, may hold a test with one of `marks`."""
    told = re.compile(rf"\bmark\.({'|'.join(map(re.escape, marks))})\b")
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(root)]
    below = path.rglob("*.py") if path.is_dir() else [path]
    return any(told.search(file.read_text(encoding="utf-8")) for file in (*above, *below) if file.is_file())
