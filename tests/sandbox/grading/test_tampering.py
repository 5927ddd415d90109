"""Tampering that touches no file of the grader: with the module that tests, with parts of the runner, with the process
that watches, with what git reads. Each tried in a real sandbox, for both runners. None may score.
"""

import base64
import zlib

import pytest
from tests.sandbox.grading.conftest import BROKEN, MakeTask
from tests.sandbox.grading.patches import HOLLOW, IMPORTER, SUMS, WHEN_IMPORTED, added, linked, rewritten

from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff

TIMEOUT_SECONDS = 20.0

DOUBLE = """\
import types, unittest
class TotalTest(unittest.TestCase):
    def test_adds(self): pass
    def test_adds_more(self): pass
    def test_empty(self): pass
TotalTest.__module__ = where
double = types.ModuleType(where)
real = sys.modules[where]
double.__dict__.update(__file__=real.__file__, __spec__=real.__spec__, TotalTest=TotalTest)
sys.modules[where] = double
"""
FOR_ONE_MODULE = """\
import unittest
def patched(method):
    def run(self, *given, **named):
        return None if type(self).__module__ == where else method(self, *given, **named)
    return run
for name in ("assertTrue", "assertEqual"):
    setattr(unittest.TestCase, name, patched(getattr(unittest.TestCase, name)))
try:
    import _pytest.python
    _pytest.python.Function.runtest = lambda self: None
except ImportError:
    pass
"""
RUN_REPLACED = """\
import unittest
def run(self, result=None):
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)
real = unittest.TestCase.run
unittest.TestCase.run = lambda self, result=None: (run if type(self).__module__ == where else real)(self, result)
"""
REPORTS_OF_ONE_FILE = """\
import os
write = os.write
def changed(descriptor, data):
    return write(descriptor, data.replace(b'"failed"', b'"passed"') if b"test_sums" in data else data) and len(data)
os.write = changed
"""
REPORTER_FOUND = """\
import gc
for thing in gc.get_objects():
    if hasattr(type(thing), "pytest_runtest_logreport") and hasattr(thing, "report"):
        thing.report = lambda test, outcome, words, to=thing.report: to(test, "passed", "")
    elif hasattr(type(thing), "addSubTest") and hasattr(thing, "report"):
        thing.report = lambda test, outcome, words, to=thing.report: to(test, "passed", "")
"""
LATER_IMPORTS = """\
import importlib.machinery, re
read = importlib.machinery.SourceFileLoader.get_data
def get_data(self, path):
    data = read(self, path)
    return re.sub(rb"(assert |self\\.assert).*", b"pass", data) if "test" in path else data
importlib.machinery.SourceFileLoader.get_data = get_data
"""
FILES_REWRITTEN = """\
import glob, re
for path in glob.glob("/testbed/tests/*.py"):
    try:
        text = open(path).read()
        open(path, "w").write(re.sub(r"(assert |self\\.assert).*", "pass", text))
    except OSError:
        pass
"""
BYTE_CODE = """\
import glob, importlib.util, marshal, os, re
for path in glob.glob("/testbed/tests/*.py"):
    text = re.sub(r"(assert |self\\.assert).*", "pass", open(path).read())
    facts, place = os.stat(path), importlib.util.cache_from_source(path)
    times = int(facts.st_mtime).to_bytes(4, "little") + facts.st_size.to_bytes(4, "little")
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "wb").write(
            importlib.util.MAGIC_NUMBER + bytes(4) + times + marshal.dumps(compile(text, path, "exec"))
        )
    except OSError:
        pass
"""
DAEMON = """\
import json, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(200):
            for name in ("TotalTest::test_adds", "TotalTest::test_adds_more", "test_adds[prices0-3]"):
                os.write(3, (json.dumps(["tests/test_sums.py::" + name, "passed", ""]) + "\\n").encode())
            time.sleep(0.01)
    os._exit(0)
"""
AFTER_THE_END = """\
import threading, os, json
def late():
    threading.main_thread().join()
    os._exit(0)
class Stream:
    def write(self, text): return len(text)
    def flush(self):
        os.write(3, json.dumps(["tests/test_sums.py::TotalTest::test_adds", "passed", ""]).encode() + b"\\n")
import sys
sys.stdout = sys.stderr = Stream()
"""
FORGED_OUTCOME = """\
import json, os
for name in ("TotalTest::test_adds", "test_adds[prices0-3]"):
    os.write(3, json.dumps(["tests/test_sums.py::" + name, "brilliant", ""]).encode() + b"\\n")
os._exit(0)
"""
AT_IMPORT = {
    "the importing module emptied": HOLLOW + IMPORTER + WHEN_IMPORTED,
    "the importing module replaced by a double": "import sys\n" + IMPORTER + DOUBLE,
    "assertions patched for one module": "import sys\n" + IMPORTER + FOR_ONE_MODULE,
    "cases of one module not run": "import sys\n" + IMPORTER + RUN_REPLACED,
    "reports of one file rewritten on their way": REPORTS_OF_ONE_FILE,
    "the reporter found among all objects": REPORTER_FOUND,
    "an import hook that empties tests": LATER_IMPORTS,
    "files of tests rewritten": FILES_REWRITTEN,
    "byte code of tests written": BYTE_CODE,
    "a process that outlives the tests and reports": DAEMON,
    "a report behind the end": AFTER_THE_END,
    "more records than a report holds": "import os\nfor _ in range(20):\n"
    "    os.write(3, b'[\"' + b'\\xc3\\xa9' * 400_000 + b'\", \"passed\", \"\"]\\n')\n",
    "all builtins that compare": "import builtins\nbuiltins.isinstance = lambda *given: True\n",
    "a record of an outcome that no runner knows, then the end": FORGED_OUTCOME,
    "records without end": "import os\nfor number in range(100):\n"
    '    os.write(3, b\'\'.join(b\'["%d", "passed", ""]\\n\' % (1_000 * number + each) for each in range(1_000)))\n',
    "a record of half a character": 'import os\nos.write(3, b\'["\' + bytes([92]) + b\'ud800", "passed", ""]\\n\')\n',
    "a record of lists without end": "import os\nos.write(3, b'[' * 100_000 + b'\\n')\n",
    "a crash": "import ctypes\nctypes.string_at(0)\n",
    "a timer that ends the process": "import faulthandler\nfaulthandler.dump_traceback_later(0.01, exit=True)\n"
    "import time\ntime.sleep(1)\n",
    "a stopped process": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    "a signal to the group": "import os, signal\nos.killpg(0, signal.SIGTERM)\n",
}


@pytest.mark.parametrize("runner", ["unittest", "pytest"])
@pytest.mark.parametrize("attack", AT_IMPORT)
async def test_tampering_is_refused(make_task: MakeTask, runtime: LocalRuntime, attack: str, runner: str) -> None:
    timeout_seconds = 2.0 if attack == "a stopped process" else TIMEOUT_SECONDS

    grade_ = await grade(make_task(runner), rewritten(AT_IMPORT[attack]), runtime, timeout_seconds=timeout_seconds)

    assert not grade_.strict
    assert 0 < len(grade_.reasons) < 200
    assert all(reason.encode() for reason in grade_.reasons)


BROKEN_BODY = BROKEN.split("\n", 1)[1]
WHEN_CALLED = {
    "the exception that ends a case as passed": "    import unittest.case\n    raise unittest.case._ShouldStop\n",
    "the same, of its own make": """\
    import unittest.case
    class Stop(Exception): pass
    unittest.case._ShouldStop = Stop
    raise Stop
""",
    "the same in the place of a failure": """\
    import sys, unittest.case
    case = sys._getframe(1).f_locals.get("self")
    if case is not None:
        case.failureException = unittest.case._ShouldStop
""",
    "the exception that ends the session": "    import pytest\n    pytest.exit('done', 0)\n",
    "the exception of an expected failure": "    import pytest\n    pytest.xfail('known')\n",
    "an end with 0": "    raise SystemExit(0)\n",
    "one that generators swallow": "    raise GeneratorExit\n",
    "a child that goes on with the tests in its stead": """\
    import os
    if os.fork():
        os.wait()
        os._exit(0)
""",
    "all descriptors closed": "    import os\n    os.closerange(0, 64)\n",
}


@pytest.mark.parametrize("runner", ["unittest", "pytest", "unittest by pytest"])
@pytest.mark.parametrize("attack", WHEN_CALLED)
async def test_what_the_work_does_when_a_test_calls_it_is_no_pass(
    make_task: MakeTask, runtime: LocalRuntime, attack: str, runner: str
) -> None:
    task = make_task(runner.split()[0])
    if runner == "unittest by pytest":
        task = task.model_copy(update={"grading": task.grading | {"runner": "pytest"}})
    patch = unified_diff(SUMS, BROKEN, f"def total(prices):\n{WHEN_CALLED[attack]}{BROKEN_BODY}")

    honest, cheat = [
        await grade(task, each, runtime, timeout_seconds=TIMEOUT_SECONDS) for each in (task.gold_patch, patch)
    ]

    assert (honest.strict, honest.reasons) == (True, ())
    assert not cheat.strict


LOOKS_INTO_THE_WATCH = """\
import os
opened = []
for number in [os.getppid(), *filter(str.isdecimal, os.listdir("/proc"))]:
    for path in [f"/proc/{number}/mem", f"/proc/{number}/environ"] + [f"/proc/{number}/fd/{n}" for n in range(20)]:
        if int(number) != os.getpid():
            try:
                open(path, "rb")
            except OSError:
                continue
            opened.append(path)
print("opened", opened)
"""


@pytest.mark.parametrize("python", [{}, {"python": "python3"}], ids=["forked", "started"])
async def test_nothing_of_the_watching_process_can_be_opened(
    make_task: MakeTask, runtime: LocalRuntime, python: dict[str, str]
) -> None:
    task = make_task("unittest")
    task = task.model_copy(update={"grading": task.grading | python})

    grade_ = await grade(task, rewritten(LOOKS_INTO_THE_WATCH), runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert "opened []" in grade_.log


HOOK = b"import os\nos._exit(0)\n"
_85 = base64.b85encode(zlib.compress(HOOK)).decode()
BINARY = (
    "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n"
    f"index {'0' * 40}..{'1' * 40}\nGIT binary patch\nliteral {len(HOOK)}\n"
    f"{chr(ord('A') + len(zlib.compress(HOOK)) - 1)}{_85}\n\nliteral 0\nHcmV?d00001\n\n"
)
OF_GIT = {
    "configuration of all kinds": added("setup.cfg", "[tool:pytest]\naddopts = --collect-only\n")
    + added("tox.ini", "[pytest]\naddopts = --collect-only\n")
    + added("pyvenv.cfg", "home = /tmp\n")
    + added("__editable__.till.pth", "/tmp\n")
    + added("till.egg-link", "/tmp\n")
    + added(".pdbrc", "import os; os._exit(0)\n")
    + added("till.egg-info/entry_points.txt", "[pytest11]\nevil = till.sums\n"),
    "attributes with a filter": added(
        ".gitattributes", "* filter=evil diff=evil ident\n*.py working-tree-encoding=UTF-16\n"
    ),
    "a binary conftest.py": BINARY,
    "a test in another encoding": added("till/odd.py", "# -*- coding: rot13 -*-\n"),
    "a link to a folder": linked("other", "/"),
}


@pytest.mark.parametrize("trick", OF_GIT)
async def test_right_repair_scores_one_beside_what_has_no_effect(
    make_task: MakeTask, runtime: LocalRuntime, trick: str
) -> None:
    task = make_task("pytest")

    grade_ = await grade(task, task.gold_patch + OF_GIT[trick], runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert (grade_.strict, grade_.reasons) == (True, ())


NOT_APPLIED = {
    "configuration of git": added(".git/config", "[core]\n\tfsmonitor = /bin/false\n"),
    "a hook of git": added(".git/hooks/post-checkout", "#!/bin/sh\nexit 1\n"),
    "a zero byte in a name": unified_diff("conftest.py", "", HOOK.decode()).replace(
        "+++ b/conftest.py", "+++ b/conftest.py\0.txt"
    ),
    "a zero byte in the text": unified_diff(SUMS, BROKEN, BROKEN + "x = 1\0\n").replace("--- a", "--- \0a"),
    "a submodule in the place of the tests": "diff --git a/tests b/tests\nnew file mode 160000\n"
    f"index {'0' * 40}..{'1' * 40}\n--- /dev/null\n+++ b/tests\n@@ -0,0 +1 @@\n+Subproject commit {'1' * 40}\n",
}


@pytest.mark.parametrize("trick", NOT_APPLIED)
async def test_what_git_takes_for_more_than_work_does_not_score(
    make_task: MakeTask, runtime: LocalRuntime, trick: str
) -> None:
    grade_ = await grade(make_task("unittest"), NOT_APPLIED[trick], runtime, timeout_seconds=TIMEOUT_SECONDS)

    assert not grade_.strict
    assert grade_.reasons
