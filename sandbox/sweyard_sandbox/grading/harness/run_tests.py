"""Run chosen tests in this process and report each one through a callback. Runs beside untrusted code.

Test ids are those of pytest, `path::Class::name[parameters]`, for both runners.
pytest is imported before the repository comes onto the import path, and reads no configuration file of the repository.
"""

import importlib
import os
import random
import sys
import unittest
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .runner_parts import parts_of_runner, replaced_parts

Report = Callable[[str, str, str], None]
"""Called with test id, outcome (passed, failed, skipped) and message."""

MESSAGE_CHARACTERS = 2_000


def run(runner: str, tests: Sequence[str], python_path: Sequence[str], report: Report, *, detailed: bool) -> list[str]:
    """Run `tests` (all that are found, if empty names are given as files) with `pytest` or `unittest` in the cwd.

    Returns names of the runner's parts that are no longer what they were before.
    """
    sys.dont_write_bytecode = True
    random.seed(0)  # tests that use chance take the same one every time
    vars(unittest.case)["_ShouldStop"] = ()  # else the one exception that ends a case as passed; work could raise it
    if runner == "pytest":
        return _run_pytest(tests, python_path, report, detailed=detailed)
    return _run_unittest(tests, python_path, report)


def _enter(python_path: Sequence[str]) -> None:
    root = Path.cwd()
    sys.path[:0] = [str(root / entry) for entry in python_path]


def _run_pytest(tests: Sequence[str], python_path: Sequence[str], report: Report, *, detailed: bool) -> list[str]:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    parts = parts_of_runner()
    _enter(python_path)
    arguments = list(dict.fromkeys(test.split("[", 1)[0] for test in tests))
    options = ["-c", os.devnull, f"--rootdir={Path.cwd()}", "-p", "no:cacheprovider", "-q", "--color=no", "--tb=short"]
    options += ["--assert=rewrite" if detailed else "--assert=plain"]
    plugin = PytestPlugin(frozenset(tests), report)
    pytest.main([*options, *arguments], plugins=[plugin])
    return replaced_parts(parts)


class PytestPlugin:
    """Keeps the wanted items and reports each once, after its last phase."""

    def __init__(self, wanted: frozenset[str], report: Report) -> None:
        self.wanted = wanted
        self.report = report
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Drop parametrizations that were not asked for; a bare file name asks for all of its tests."""
        items[:] = [item for item in items if {item.nodeid, item.nodeid.split("::", 1)[0]} & self.wanted]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Fold setup, call and teardown into one outcome: the worst."""
        before = self.outcomes.get(report.nodeid, ("passed", ""))
        if before[0] == "passed" and report.outcome != "passed":
            self.outcomes[report.nodeid] = (report.outcome, str(report.longrepr or "")[-MESSAGE_CHARACTERS:])
        else:
            self.outcomes[report.nodeid] = before
        if report.when == "teardown":
            self.report(report.nodeid, *self.outcomes[report.nodeid])


def _run_unittest(tests: Sequence[str], python_path: Sequence[str], report: Report) -> list[str]:
    parts = parts_of_runner()
    _enter(python_path)
    result = UnittestResult(report)
    for path in dict.fromkeys(test.split("::", 1)[0] for test in tests):
        wanted = frozenset(test for test in tests if test.split("::", 1)[0] == path)
        try:
            module = importlib.import_module(_module_name(path))
        except Exception as error:  # a test file that does not import is the tested work's failure, not ours
            print(f"{path} does not import: {error!r}", file=sys.stderr)
            continue
        chosen = unittest.TestSuite()
        for name, case in _cases(path, module):
            if {name, path} & wanted:
                result.names[id(case)] = name
                chosen.addTest(case)
        chosen.run(result)
    return replaced_parts(parts)


def _module_name(path: str) -> str:
    """Import name of a test file: dotted below the highest folder that is a package, which goes on the import path."""
    file = Path.cwd() / path
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return ".".join(parts)


def _cases(path: str, module: ModuleType) -> Iterator[tuple[str, unittest.TestCase]]:
    """Test ids and cases of a module, by the names that classes have in it, as for pytest."""
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            for function in unittest.defaultTestLoader.getTestCaseNames(value):
                yield f"{path}::{name}::{function}", value(function)


class UnittestResult(unittest.TestResult):
    """Reports each case once, when it stops."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report
        self.names: dict[int, str] = {}
        self.outcome: tuple[str, str] | None = None

    def startTest(self, test: unittest.TestCase) -> None:
        """Forget the last case."""
        super().startTest(test)
        self.outcome = None

    def stopTest(self, test: unittest.TestCase) -> None:
        """Report; a case for which the runner said nothing, not even success, is failed."""
        super().stopTest(test)
        outcome, message = self.outcome or ("failed", "no result")
        self.report(self.names[id(test)], outcome, message)

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Passed, unless a subtest failed before."""
        self.outcome = self.outcome or ("passed", "")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Failed with an exception."""
        super().addError(test, err)
        self.outcome = ("failed", self.errors[-1][1][-MESSAGE_CHARACTERS:])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Failed."""
        super().addFailure(test, err)
        self.outcome = ("failed", self.failures[-1][1][-MESSAGE_CHARACTERS:])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """A failed subtest fails its case."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcome = ("failed", (self.failures + self.errors)[-1][1][-MESSAGE_CHARACTERS:])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Skipped."""
        super().addSkip(test, reason)
        self.outcome = self.outcome or ("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Fails as its author said it would: counts as skipped, since it proves nothing."""
        self.outcome = ("skipped", "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Passed although its author said it would fail."""
        super().addUnexpectedSuccess(test)
        self.outcome = ("failed", "unexpected success")
