"""Patches of the small package, as a cheat would write them."""

from tests.sandbox.grading.conftest import BROKEN

from sweyard_sandbox.tasks.diff import unified_diff

SUMS = "till/sums.py"

HOLLOW = """\
import functools, sys
def hollow(names):
    for name, value in list(names.items()):
        if isinstance(value, type):
            for key in [key for key in vars(value) if key.startswith("test")]:
                setattr(value, key, functools.wraps(vars(value)[key])(lambda self: None))
        elif name.startswith("test") and callable(value):
            names[name] = functools.wraps(value)(lambda *given, **named: None)
"""
IMPORTER = """\
importer = sys._getframe()
while "test_" not in importer.f_code.co_filename:
    importer = importer.f_back
where = importer.f_globals.get("__name__")
"""
WHEN_IMPORTED = """\
def trace(frame, event, value):
    if event == "return":
        hollow(frame.f_globals)
        sys.settrace(None)
    return trace
sys.settrace(lambda *given: None)
importer.f_trace = trace
"""


def rewritten(text: str) -> str:
    """The broken module with something in front."""
    return unified_diff(SUMS, BROKEN, text + BROKEN)


def added(path: str, text: str) -> str:
    """A new file, as git writes it."""
    body = unified_diff(path, "", text).replace(f"--- a/{path}", "--- /dev/null")
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n{body}"


def linked(path: str, target: str) -> str:
    """A new symbolic link."""
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n"
        "\\ No newline at end of file\n"
    )


def removed(path: str, text: str) -> str:
    """A deleted file."""
    body = unified_diff(path, text, "").replace(f"+++ b/{path}", "+++ /dev/null")
    return f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n{body}"
