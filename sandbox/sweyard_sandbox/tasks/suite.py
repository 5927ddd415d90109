"""A package's own test suite: where it is, which runner it needs, which tests pass, and what each one covers."""

import ast
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_sandbox.grading.harness.run_tests import run
from sweyard_sandbox.tasks.source import SourceError

NOT_SOURCE = {
    "tests",
    "test",
    "testing",
    "docs",
    "doc",
    "examples",
    "example",
    "benchmarks",
    "bench",
    "scripts",
    "tools",
}
NOT_MODULES = {"setup.py", "conftest.py", "noxfile.py", "conf.py", "versioneer.py"}
SUITE_TIMEOUT_SECONDS = 300.0
SAID_BYTES = 400

Coverage = dict[str, list[tuple[str, int]]]
"""Test id -> functions it ran: (path, first line, decorators included)."""


@dataclass(frozen=True, slots=True)
class Suite:
    """How to run a package's tests, and what they do on the clean tree."""

    runner: str
    python_path: tuple[str, ...]
    test_files: tuple[str, ...]
    source_files: tuple[str, ...]
    coverage: Coverage
    """Only tests that passed, twice, in two processes."""

    def covering(self, path: str, function_line: int) -> list[str]:
        """Tests that run a function; those that run the least else come first."""
        tests = [test for test, functions in self.coverage.items() if (path, function_line) in functions]
        return sorted(tests, key=lambda test: (len(self.coverage[test]), test))


def discover(root: Path) -> Suite:
    """Find and run the suite of a clean tree. Raises SourceError if there is none that passes."""
    python_path = ("src",) if (root / "src").is_dir() else (".",)
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*.py"))
    test_files = tuple(path for path in files if is_test_file(path) and _parses(root / path))
    if not test_files:
        raise SourceError(
            f"{root.name}: the source has no test files (test_*.py); choose a package that ships its tests"
        )
    source_files = tuple(
        path
        for path in files
        if not is_test_file(path) and is_source_file(path, python_path[0]) and _is_utf8(root / path)
    )
    # unittest starts ten times as fast as pytest; plain functions beside its cases are then not used.
    num_unittest = sum(_is_unittest(root / path) for path in test_files)
    runner = "unittest" if 2 * num_unittest > len(test_files) else "pytest"
    first, second = (measure(root, runner, python_path, test_files) for _ in range(2))
    coverage = {test: functions for test, functions in first.items() if test in second}
    if not coverage:
        raise SourceError(f"{root.name}: none of its tests passes with {runner}; it may need packages that are missing")
    return Suite(runner, python_path, test_files, source_files, coverage)


def is_test_file(path: str) -> bool:
    """True for what pytest would collect by its name."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name == "tests.py")


def is_source_file(path: str, python_path: str) -> bool:
    """True for modules of the package itself."""
    folders = path.split("/")[:-1]
    inside = python_path == "." or path.startswith(f"{python_path}/")
    return inside and path not in NOT_MODULES and not NOT_SOURCE & set(folders) and not path.endswith("/conftest.py")


def _parses(path: Path) -> bool:
    """What does not may be meant for another Python, or for tests to read; with it pytest would run none."""
    try:
        ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    return True


def _is_utf8(path: Path) -> bool:
    """Patches and bugs are text in UTF-8; an older module may declare another encoding."""
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_unittest(path: Path) -> bool:
    """True if unittest finds tests in the file and can run them."""
    tree = ast.parse(path.read_bytes())
    imported = {alias.name.split(".")[0] for node in ast.walk(tree) for alias in _imports(node)}
    return "pytest" not in imported and any(isinstance(node, ast.ClassDef) for node in tree.body)


def _imports(node: ast.AST) -> Iterator[ast.alias]:
    if isinstance(node, ast.Import):
        yield from node.names
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield ast.alias(node.module)


def measure(
    root: Path,
    runner: str,
    python_path: tuple[str, ...],
    test_files: tuple[str, ...],
    timeout_seconds: float = SUITE_TIMEOUT_SECONDS,
) -> Coverage:
    """Run the whole suite in a process of its own; the passing tests and the functions that each ran.

    It runs in a copy, which its tests may write into and remove. Raises SourceError if it does not come to its end.
    """
    with tempfile.TemporaryDirectory(prefix="sweyard-suite-", ignore_cleanup_errors=True) as folder:
        tree = shutil.copytree(root, Path(folder) / "tree" / root.name, symlinks=True)
        out, log = Path(folder) / "coverage.json", Path(folder) / "log"
        request = {"runner": runner, "python_path": python_path, "tests": test_files, "out": str(out)}
        command = [sys.executable, "-m", "sweyard_sandbox.tasks.suite", json.dumps(request)]
        if not _ends(command, tree, log, timeout_seconds):
            raise SourceError(
                f"{root.name}: its tests do not end within {timeout_seconds:g} s; choose a package with a faster suite"
            )
        if not out.exists():
            said = log.read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
            raise SourceError(f"{root.name}: its tests ended their process: {said or 'it said nothing'}")
        return {test: [(path, line) for path, line in ran] for test, ran in json.loads(out.read_text()).items()}


def _ends(command: list[str], cwd: Path, log: Path, timeout_seconds: float) -> bool:
    """Whether the command ends in time. Its session ends with it, so that no test's child lives on."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return True


class FunctionTracer:
    """Which functions of the cwd were entered since the last test ended."""

    def __init__(self) -> None:
        self.root = os.getcwd() + os.sep
        self.entered: set[Any] = set()
        self.coverage: Coverage = {}

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        """Profile function."""
        if event == "call":
            self.entered.add(frame.f_code)

    def report(self, test: str, outcome: str, message: str) -> None:
        """Close the account of one test."""
        codes = [code for code in list(self.entered) if code.co_filename.startswith(self.root)]
        if outcome == "passed":
            names = {(code.co_filename[len(self.root) :], code.co_firstlineno) for code in codes}
            self.coverage[test] = sorted(names)
        self.entered.clear()


def main(arguments: list[str]) -> None:
    """Entry point of the measuring process: run the suite of the cwd under the tracer."""
    request = json.loads(arguments[0])
    tracer = FunctionTracer()
    sys.setprofile(tracer)
    run(request["runner"], request["tests"], request["python_path"], tracer.report, detailed=False)
    sys.setprofile(None)
    Path(request["out"]).write_text(json.dumps(tracer.coverage))


if __name__ == "__main__":
    main(sys.argv[1:])
