"""Unified diffs of text, as git writes and applies them."""

import difflib
import re
from collections.abc import Iterator


def lines_of(text: str) -> list[str]:
    """Lines with their newline; only a line feed ends a line, as for git."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def unified_diff(path: str, before: str, after: str) -> str:
    """Patch that turns `before` into `after` at `path` (git apply -p1); empty if they are equal."""
    return "".join(_marked(difflib.unified_diff(lines_of(before), lines_of(after), f"a/{path}", f"b/{path}")))


def file_patch(path: str, before: str, after: str) -> str:
    """The same for a file that `before` (empty) or `after` (empty) may not have at all, with git's header."""
    patch, header = unified_diff(path, before, after), f"diff --git a/{path} b/{path}\n"
    if before == after:
        return ""
    if not before:
        return f"{header}new file mode 100644\n" + patch.replace(f"--- a/{path}", "--- /dev/null", 1)
    if not after:
        return f"{header}deleted file mode 100644\n" + patch.replace(f"+++ b/{path}", "+++ /dev/null", 1)
    return header + patch


HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@(.*)", re.DOTALL)
OPPOSITES = {
    "--- a/": "+++ b/",
    "+++ b/": "--- a/",
    "--- /dev/null": "+++ /dev/null",
    "+++ /dev/null": "--- /dev/null",
    "new file mode": "deleted file mode",
    "deleted file mode": "new file mode",
    "old mode": "new mode",
    "new mode": "old mode",
}


def reversed_patch(patch: str) -> str:
    """The patch that undoes it. Of git's headers those of renames and binary files are left as they are."""
    done: list[str] = []
    first_of_pair = ""
    left_old = left_new = 0
    for line in lines_of(patch):
        if left_old > 0 or left_new > 0:
            left_old -= line[0] in " -\n"
            left_new -= line[0] in " +\n"
            done.append({"-": "+", "+": "-"}.get(line[0], line[0]) + line[1:])
        elif match := HUNK.fullmatch(line):
            old, num_old, new, num_new, rest = match.groups()
            left_old, left_new = (int(count[1:]) if count else 1 for count in (num_old, num_new))
            done.append(f"@@ -{new}{num_new or ''} +{old}{num_old or ''} @@{rest}")
        elif line.startswith(("--- ", "old mode")):
            first_of_pair = line
        else:
            done.append(_reversed_header(line))
            if line.startswith(("+++ ", "new mode")):
                done.append(_reversed_header(first_of_pair))
    return "".join(done)


def _reversed_header(line: str) -> str:
    for word, other in OPPOSITES.items():
        if line.startswith(word):
            return other + line[len(word) :]
    match = re.fullmatch(r"index (\w+)\.\.(\w+)(.*)", line, re.DOTALL)
    return f"index {match[2]}..{match[1]}{match[3]}" if match else line


def _marked(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
