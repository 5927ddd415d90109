"""Canaries for evaluation scripts of SWE-bench rows, whose log has no nonce. Pure.

They end the files of hidden tests just before the tests begin, so that whatever runs a file runs them too, and are read
by the parser that reads the rest. sympy's own runner knows functions alone; all others of Python collect classes.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_sandbox.grading.canary import MUST_FAIL, Canary
from sweyard_sandbox.grading.compiled_canary import can_hold_canary, compiled_text
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.grading.protect import TEST_FILE

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
END_OF_CANARY = "SWEYARD_END_OF_CANARY"
FUNCTION = "def test_{name}_{what}():\n    assert {claim}, '{token}'\n"
FAILING = frozenset({"FAILED", "ERROR"})
PASSING = frozenset({"PASSED", "XFAIL"})


def files_for_canaries(row: Mapping[str, Any], fail_to_pass: Sequence[str]) -> list[str]:
    """Files of hidden tests that the row's script runs and that can hold a canary; none where that cannot be told."""
    _, start, rest = _around_start(row["eval_script"])
    if not start:
        return []
    command = rest.partition(END)[0]
    sections = [section for section in split_patch(str(row.get("test_patch") or "")) if not section.is_deletion]
    failing = {test.split("::", 1)[0]: None for test in fail_to_pass if "::" in test}
    paths = [section.path for section in sections] or list(failing)
    is_run = [path for path in paths if path in failing or _is_named(path, command)]
    python = [path for path in dict.fromkeys(is_run) if TEST_FILE.search(path)]
    compiled = [section.path for section in sections if can_hold_canary(section, row["log_parser"])]
    return python + compiled


def _around_start(script: str) -> tuple[str, str, str]:
    """Text before, in and behind the line with which the tests begin; nothing but the first where there is none."""
    lines = [*re.finditer(rf"^.*{START}.*\n", script, re.MULTILINE)]
    if not lines:
        return script, "", ""
    begin, end = lines[-1].span()
    return script[:begin], script[begin:end], script[end:]


def _is_named(path: str, command: str) -> bool:
    """By itself, as a module, or as Django's runner names that."""
    module = path.removesuffix(".py").replace("/", ".")
    words = command.replace("'", " ").replace('"', " ").split()
    return not {path, module, module.removeprefix("tests.")}.isdisjoint(words)


def script_with_canaries(row: Mapping[str, Any], canaries: Sequence[Canary]) -> str:
    """The row's script, which puts the canaries in last of all."""
    before, start, after = _around_start(row["eval_script"])
    ends = (
        f"cat >>{shlex.quote(canary.path)} <<'{END_OF_CANARY}'\n\n\n{_text(canary, row['log_parser'])}{END_OF_CANARY}\n"
        for canary in canaries
    )
    return f"{before}{''.join(ends)}{start}{after}"


def _text(canary: Canary, log_parser: str) -> str:
    if not canary.path.endswith(".py"):
        return compiled_text(canary)
    return _functions(canary) if log_parser == "parse_log_sympy" else canary.text_for_any_runner


def _functions(canary: Canary) -> str:
    claims = {what: "[1] == [2]" for what in MUST_FAIL} | {"test_right": "[1] == [1]"}
    claims["test_zzz"] = "True"  # sympy writes the result of a file behind that of its last test, which hides it
    told = {"name": canary.name, "token": canary.token}
    return "\n\n".join(
        FUNCTION.format(what=what.removeprefix("test_"), claim=claim, **told) for what, claim in claims.items()
    )


def problems(canary: Canary, statuses: Mapping[str, str]) -> list[str]:
    """What is wrong with what the log says of it; `statuses` as swebench's parsers give them."""
    said = []
    for what in ("test_right",) if canary.path.endswith(".rs") else (*MUST_FAIL, "test_right"):
        wanted = PASSING if what == "test_right" else FAILING
        found = {status for test, status in statuses.items() if _is_of(canary, what, test)}
        if not found or found - wanted:
            said.append(f"a canary that must {'pass' if wanted is PASSING else 'fail'} ({what}) did not")
    return said


def _is_of(canary: Canary, what: str, test: str) -> bool:
    words = set(re.split(r"\W+", test))
    function = f"est_{canary.name}_{what.removeprefix('test_')}"
    is_function = any(f"{begin}{function}" in words for begin in ("t", "T", "zzz_t"))
    return is_function or {f"Case{canary.name}", what} <= words
