"""Proof that one mutation is a task: green without it, red with it, and green again after the gold patch.

Runs in worker processes. Each has a copy of the tree of its own, and forks for every run.
"""

import ast
import os
import resource
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweyard_sandbox.grading.harness.forked import Run, Selection, run_forked
from sweyard_sandbox.grading.harness.supervise import apply_patch
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.mutation.find import Mutation

RUN_TIMEOUT_SECONDS = 20.0
"""For tests that wait for ever; ten times what the processor may take, so that a busy machine rejects no good bug."""
RUN_CPU_SECONDS = 2
"""Ends a loop without end early, and does not depend on how busy the machine is."""
MAX_COVERING_TESTS = 60
MAX_FAIL_TO_PASS = 20
MAX_PASS_TO_PASS = 10
UNNOTICED = "survives"
"""Why a mutation is rejected that no test fails with."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the package's tests say about one mutation."""

    rejected: str = ""
    """Why it is no task; empty if it is one."""
    failures: tuple[tuple[str, str], ...] = ()
    """(test, message) of FAIL_TO_PASS, the most specific first."""
    pass_to_pass: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For the journal."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Work:
    """One mutation to be verified."""

    root: Path
    runner: str
    python_path: tuple[str, ...]
    mutation: Mutation
    tests: tuple[str, ...]
    """Tests that run the mutated function, the most specific first."""


_copies: dict[Path, tempfile.TemporaryDirectory[str]] = {}
"""This worker's copy of each tree."""


def prepare_worker(runner: str, folder: str) -> None:
    """Pay for pytest's import once a worker instead of once a run; copies go to `folder`, which the caller removes."""
    tempfile.tempdir = folder
    if runner == "pytest":
        __import__("pytest")


def verify(work: Work) -> Verdict:
    """Run the tests with the bug and with the bug and the gold patch; put the copy back as it was."""
    folder = _copy_of(work.root)
    file = folder / work.mutation.path
    clean = file.read_bytes().decode()
    times = file.stat()
    os.chdir(folder)
    try:
        return _verify(work, file, clean)
    finally:
        try:
            file.write_bytes(clean.encode())
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        except FileNotFoundError:  # its tests removed the tree: the next mutation gets a new copy
            os.chdir(tempfile.gettempdir())
            _copies.pop(work.root).cleanup()


def _verify(work: Work, file: Path, clean: str) -> Verdict:
    broken = work.mutation.apply(clean)
    if not _parses(broken):
        return Verdict(rejected="does not parse")
    file.write_bytes(broken.encode())
    tests = work.tests[:MAX_COVERING_TESTS]
    red = _run(work, tests, detailed=True)
    if red.timed_out or red.status == -signal.SIGXCPU:
        return Verdict(rejected="hangs")
    if not red.finished:
        return Verdict(rejected="ends the test process")
    outcomes = {test: (outcome, message) for test, outcome, message in red.records}
    failed = [test for test in tests if outcomes.get(test, ("missing", ""))[0] == "failed"]
    if not failed:
        return Verdict(rejected=UNNOTICED)
    if missing := [test for test in tests if test not in outcomes]:
        return Verdict(rejected=f"{len(missing)} tests vanish")
    passed = [test for test in tests if outcomes[test][0] == "passed"][:MAX_PASS_TO_PASS]
    failed = failed[:MAX_FAIL_TO_PASS]
    again = _outcomes(_run(work, (*failed, *passed), detailed=False))
    failed = [test for test in failed if again.get(test) == "failed"]
    passed = [test for test in passed if again.get(test) == "passed"]
    if not failed:
        return Verdict(rejected="fails only sometimes")
    if not file.exists():
        return Verdict(rejected="removes the package")
    if failure := apply_patch(unified_diff(work.mutation.path, broken, clean)):
        return Verdict(rejected=f"gold patch does not apply: {failure}")
    green = _outcomes(_run(work, (*failed, *passed), detailed=False))
    if any(green.get(test) != "passed" for test in (*failed, *passed)):
        return Verdict(rejected="not green again with the gold patch")
    return Verdict(failures=tuple((test, outcomes[test][1]) for test in failed), pass_to_pass=tuple(passed))


def _run(work: Work, tests: tuple[str, ...], *, detailed: bool) -> Run:
    selection = Selection(work.runner, tests, work.python_path, detailed)
    return run_forked(selection, timeout_seconds=RUN_TIMEOUT_SECONDS, setup=lambda: _enter(work))


def _outcomes(run: Run) -> dict[str, str]:
    return {test: outcome for test, outcome, _ in run.records}


def _enter(work: Work) -> None:
    """Bound the CPU time; drop modules of the same name that this process has from elsewhere."""
    resource.setrlimit(resource.RLIMIT_CPU, (RUN_CPU_SECONDS, RUN_CPU_SECONDS + 1))
    places = [Path.cwd() / entry for entry in work.python_path]
    ours = {path.stem for place in places for path in place.iterdir()}
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _copy_of(root: Path) -> Path:
    if root not in _copies:
        _copies[root] = tempfile.TemporaryDirectory(prefix="sweyard-verify-")
        shutil.copytree(root, Path(_copies[root].name) / root.name)
    return Path(_copies[root].name) / root.name
