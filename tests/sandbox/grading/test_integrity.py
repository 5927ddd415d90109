"""Ways to be rewarded without solving the task, each tried in a real sandbox. None may score."""

import socket

import pytest
from tests.sandbox.grading.conftest import BROKEN, FIXED, PYTEST, UNITTEST, MakeTask
from tests.sandbox.grading.patches import SUMS, added, linked, removed, rewritten

from sweyard_sandbox.grading.grade import TestStatus
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.prepare import prepare_sandbox

TIMEOUT_SECONDS = 20.0

FORGED_RECORDS = """\
import json, os, sys
names = ["TotalTest::test_adds", "TotalTest::test_adds_more", "TotalTest::test_empty"]
names += ["test_adds[prices0-3]", "test_adds[prices1-5]", "test_empty"]
for descriptor in range(3, 64):
    for name in names:
        try:
            os.write(descriptor, (json.dumps(["tests/test_sums.py::" + name, "passed", ""]) + "\\n").encode())
        except OSError:
            break
"""
EVERYTHING_PASSES = """\
import unittest
import unittest.case
for name in [name for name in dir(unittest.TestCase) if name.startswith("assert")]:
    if name not in ("assertRaises", "assertWarns", "assertLogs", "assertNoLogs"):
        setattr(unittest.TestCase, name, lambda *arguments, **options: None)
"""
PYTEST_REPORTS = """\
import _pytest.reports
made = _pytest.reports.TestReport.from_item_and_call.__func__
def from_item_and_call(cls, item, call):
    report = made(cls, item, call)
    report.outcome = "passed"
    report.longrepr = None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(from_item_and_call)
"""
UNITTEST_RESULTS = """\
import unittest, gc
for result in [thing for thing in gc.get_objects() if isinstance(thing, unittest.TestResult)]:
    kind = type(result)
    kind.addFailure = lambda self, test, error: self.addSuccess(test)
    kind.addError = lambda self, test, error: self.addSuccess(test)
"""
KILL_THE_WATCH = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"

ATTACKS = {
    "nothing": "",
    "os._exit(0) at import": rewritten("import os\nos._exit(0)\n"),
    "sys.exit(0) at import": rewritten("import sys\nsys.exit(0)\n"),
    "raises at import": rewritten("raise RuntimeError('no')\n"),
    "syntax error": rewritten("def (\n"),
    "exit handler with status 0": rewritten("import atexit, os\natexit.register(os._exit, 0)\n"),
    "skip at import": rewritten("import unittest\nraise unittest.SkipTest('no')\n"),
    "skip when called": unified_diff(
        SUMS, BROKEN, BROKEN.replace("    result = 0\n", "    import unittest\n    raise unittest.SkipTest('no')\n")
    ),
    "forged log": rewritten(
        "print('tests/test_sums.py::TotalTest::test_adds PASSED')\nprint('===== 3 passed in 0.01s =====')\n"
    ),
    "forged records, then exit": rewritten(FORGED_RECORDS + "os.write(5, b'[\"finished\"]\\n')\nos._exit(0)\n"),
    "forged records beside real ones": rewritten(FORGED_RECORDS),
    "assertions patched": rewritten(EVERYTHING_PASSES),
    "pytest reports patched": rewritten(PYTEST_REPORTS),
    "unittest results patched": rewritten(UNITTEST_RESULTS),
    "watching process killed": rewritten(KILL_THE_WATCH),
    "tests deleted": removed("tests/test_sums.py", UNITTEST),
    "pytest tests deleted": removed("tests/test_sums.py", PYTEST),
    "tests emptied": unified_diff("tests/test_sums.py", UNITTEST, UNITTEST.replace("3)", "-3)").replace("== 5", "< 5")),
    "conftest skips": added("conftest.py", "import pytest\ncollect_ignore_glob = ['*']\n"),
    "conftest rewrites results": added(
        "tests/conftest.py",
        "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n",
    ),
    "pytest.ini": added("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
    "sitecustomize": added("sitecustomize.py", "import os\nos._exit(0)\n"),
    "pytest in the repository": added("pytest.py", "def main(*arguments, **options):\n    raise SystemExit(0)\n"),
    "unittest in the repository": added("unittest/__init__.py", "class TestCase:\n    pass\n"),
    "json in the repository": added("json.py", "def dumps(value):\n    return '[]'\n"),
    "python in the repository": added("python3", "#!/bin/sh\nexit 0\n"),
    "path configuration": added("evil.pth", "import os; os._exit(0)\n"),
    "link out of the repository": linked("till/extra", "/etc"),
    "link in the place of the tests": removed("tests/test_sums.py", UNITTEST)
    + linked("tests/test_sums.py", "/etc/passwd"),
    "path out of the repository": added("../tmp/evil.py", "x = 1\n"),
    "does not apply": unified_diff(SUMS, "something else\n", "entirely\n"),
    "no patch at all": "I could not do it.\n",
    "an infinite loop": unified_diff(SUMS, BROKEN, "while True:\n    pass\n" + BROKEN),
    "the disk": rewritten(
        "try:\n    with open('/tmp/full', 'wb') as file:\n        while True:\n            file.write(bytes(1 << 24))\n"
        "except OSError:\n    pass\n"
    ),
    "a fork bomb": rewritten("import os\nwhile True:\n    os.fork()\n"),
    "enormous output": rewritten("for _ in range(2_000):\n    print('PASSED ' * 10_000)\n"),
    "a plugin of pytest": added("evil.py", "import os\nos._exit(0)\n")
    + added("evil-1.dist-info/entry_points.txt", "[pytest11]\nevil = evil\n")
    + added("evil-1.dist-info/METADATA", "Name: evil\nVersion: 1\n"),
    # Not bytearrays, which write to what they take: gigabytes of the machine's memory for each try.
    "memory": rewritten("blocks = []\nwhile True:\n    blocks.append(bytes(1 << 28))\n"),
}


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_attack_is_refused(make_task: MakeTask, runtime: LocalRuntime, attack: str, runner: str) -> None:
    timeout_seconds = 2.0 if attack == "an infinite loop" else TIMEOUT_SECONDS

    grade_ = await grade(make_task(runner), ATTACKS[attack], runtime, timeout_seconds=timeout_seconds)

    assert not grade_.strict
    assert grade_.reasons


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize(
    "beside",
    [
        "",
        added("tests/test_mine.py", "def test_mine():\n    assert True\n"),
        added("conftest.py", "import pytest\n"),
        added("notes/reproduce.py", "print(1)\n"),
        unified_diff("README.md", "till\n", "till, mended\n"),
        linked("till/extra", "/etc"),
    ],
    ids=["alone", "with a test", "with a conftest", "with a script", "with words", "with a link"],
)
async def test_right_repair_scores_one_whatever_lies_beside_it(
    make_task: MakeTask, runtime: LocalRuntime, runner: str, beside: str
) -> None:
    task = make_task(runner)

    grade_ = await grade(task, task.gold_patch + beside, runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert (grade_.official, grade_.strict, grade_.reasons) == (True, True, ())
    assert set(grade_.tests.values()) == {TestStatus.PASSED}


HOOK = "import os\nos._exit(0)\n"
CONFTEST = unified_diff("conftest.py", "", HOOK)
MOVED = "diff --git a/{source} b/{source}\nsimilarity index 100%\n{how} from {source}\n{how} to conftest.py\n"
UNDER_ANOTHER_NAME = {
    "behind a tab": CONFTEST.replace("--- a/conftest.py", "--- /dev/null").replace(
        "+++ b/conftest.py", "+++ b/conftest.py\t1970"
    ),
    "as a name in quotes": CONFTEST.replace("--- a/conftest.py", "--- /dev/null").replace(
        "+++ b/conftest.py", '+++ "b/\\143onftest.py"'
    ),
    "with line ends of another system": CONFTEST.replace("--- a/conftest.py", "--- /dev/null").replace("\n", "\r\n"),
    "as the original of another": CONFTEST.replace("+++ b/conftest.py", "+++ b/conftest.py.orig"),
    "with a prefix of another kind": CONFTEST.replace("--- a/conftest.py", "--- /dev/null").replace("+++ b/", "+++ x/"),
    "as a copy": MOVED.format(source="till/sums.py", how="copy"),
    "as a rename": MOVED.format(source="README.md", how="rename"),
}


@pytest.mark.parametrize("trick", UNDER_ANOTHER_NAME.values(), ids=UNDER_ANOTHER_NAME)
async def test_what_is_no_work_is_known_by_the_name_that_git_takes(
    make_task: MakeTask, runtime: LocalRuntime, trick: str
) -> None:
    """The text comes out of a sandbox in which the agent may have put a git of its own."""
    task = make_task("unittest")

    grade_ = await grade(task, task.gold_patch + trick, runtime, timeout_seconds=TIMEOUT_SECONDS)

    left_out = "conftest.py: configuration of the tests' run" in grade_.log
    assert left_out or any("'conftest.py' under another name" in reason for reason in grade_.reasons), grade_
    assert grade_.strict == left_out


async def test_what_an_agent_leaves_running_does_not_reach_the_grading(
    make_task: MakeTask, runtime: LocalRuntime
) -> None:
    task = make_task("unittest")
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        script = "while :; do echo x >/testbed/tests/test_sums.py; rm -rf /tmp/sweyard-grade-*; sleep 0.01; done"
        await sandbox.run(f"setsid sh -c '{script}' >/dev/null 2>&1 &", timeout_seconds=20.0)
        honest, none = [
            await grade(task, patch, runtime, timeout_seconds=TIMEOUT_SECONDS) for patch in (task.gold_patch, "")
        ]

    assert (honest.strict, none.official) == (True, False)


async def test_neither_agent_nor_tested_code_reaches_this_machines_network(
    make_task: MakeTask, runtime: LocalRuntime
) -> None:
    task = make_task("unittest")
    reach = "import socket\nsocket.create_connection(('127.0.0.1', PORT), timeout=5)\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        text = reach.replace("PORT", str(server.getsockname()[1]))
        async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
            by_agent = await sandbox.run(f'python3 -c "{text}"', timeout_seconds=20.0)
        by_tests = await grade(task, unified_diff(SUMS, BROKEN, text + FIXED), runtime, timeout_seconds=TIMEOUT_SECONDS)
        with pytest.raises(BlockingIOError):
            server.accept()

    assert "ConnectionRefusedError" in by_agent.text
    assert not by_tests.official


@pytest.mark.parametrize(
    "patch",
    ["", ATTACKS["syntax error"], ATTACKS["os._exit(0) at import"], ATTACKS["raises at import"]],
    ids=["nothing", "syntax error", "exit", "raise"],
)
async def test_tests_that_are_not_collected_are_listed_as_missing(
    make_task: MakeTask, runtime: LocalRuntime, patch: str
) -> None:
    grade_ = await grade(make_task("unittest"), patch, runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert (grade_.official, grade_.strict) == (False, False)
    expected = {TestStatus.MISSING} if patch else {TestStatus.FAILED, TestStatus.PASSED}
    assert set(grade_.tests.values()) == expected


async def test_renaming_the_test_folder_changes_nothing(make_task: MakeTask, runtime: LocalRuntime) -> None:
    patch = removed("tests/test_sums.py", UNITTEST) + added("tests_old/test_sums.py", UNITTEST)

    grade_ = await grade(make_task("unittest"), patch, runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert not grade_.official
    assert "left out: tests/test_sums.py" in grade_.log


async def test_skipped_required_test_is_not_passed(make_task: MakeTask, runtime: LocalRuntime) -> None:
    grade_ = await grade(make_task("unittest"), ATTACKS["skip when called"], runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert TestStatus.SKIPPED in grade_.tests.values()
    assert not grade_.official
