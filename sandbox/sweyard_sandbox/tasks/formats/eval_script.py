"""The evaluation script that rows of older SWE-bench-like schemas lack: hidden tests in, one command, hidden tests out.

Shape and commands are those of swebench 4 (harness/test_spec and harness/constants) and, for SWE-Gym's repositories, of
its fork of it. Two things differ, since sandboxes have no network: nothing is fetched, and packages that are installed
as links to their sources are not installed anew. What compiles without an index is.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.tasks.formats.fields import text_field

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Between these swebench looks for results."""
NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Endings of files of a test patch that no runner takes."""
MYPY_CASE = re.compile(r"^\+?\s*\[case ([^\]\s]+)\]", re.MULTILINE)
CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")


@dataclass(frozen=True, slots=True)
class Testing:
    """How one repository's tests are run and their log is read."""

    __test__ = False

    command: str
    parser: str = "parse_log_pytest"
    """Name in swebench 5's PARSER_REGISTRY."""
    before: tuple[str, ...] = ()
    """Shell lines before the tests."""
    names_files: bool = True
    """The command is told the files of the test patch; else it is whole as it is."""


def build_eval_script(
    testing: Testing,
    *,
    repository: str,
    directory: str,
    base_commit: str,
    test_patch: str,
    setup: Sequence[str] = CONDA,
) -> str:
    """The script's text; `directory` holds the repository, at or beyond `base_commit`."""
    sections = split_patch(test_patch)
    restored = [section.path for section in sections if "\n--- /dev/null" not in section.text]
    checkout = f"git checkout {base_commit} -- {' '.join(map(shlex.quote, restored))}" if restored else ":"
    files = directives(repository, test_patch) if testing.names_files else ""
    end_of_patch = "SWEYARD_END_OF_TEST_PATCH"
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            *setup,
            f"cd {shlex.quote(directory)}",
            *testing.before,
            f"git config --global --add safe.directory {shlex.quote(directory)}",
            checkout,
            f"git apply -v - <<'{end_of_patch}'",
            f"{test_patch.rstrip(chr(10))}\n{end_of_patch}",
            f": '{START}'",
            f"{testing.command} {files}".rstrip(),
            f": '{END}'",
            checkout,
            "",
        ]
    )


def fields_of_testing(
    testing: Testing, row: dict[str, Any], label: str, *, directory: str, setup: Sequence[str] = CONDA
) -> dict[str, Any]:
    """What a row lacks to be one of swebench 5, by its own repo, base_commit and test_patch. Raises TaskFormatError."""
    script = build_eval_script(
        testing,
        repository=text_field(row, "repo", label),
        directory=directory,
        base_commit=text_field(row, "base_commit", label),
        test_patch=text_field(row, "test_patch", label),
        setup=setup,
    )
    return {"log_parser": testing.parser, "eval_type": "pass_and_fail", "eval_script": script}


def directives(repository: str, test_patch: str) -> str:
    """What the command is to run, for the shell: the test patch's files, by the names that the runner gives them."""
    if repository == "python/mypy":
        return shlex.quote(" or ".join(dict.fromkeys(MYPY_CASE.findall(test_patch))))
    files = [section.path for section in split_patch(test_patch) if not section.path.endswith(NO_TESTS)]
    if repository == "django/django":
        files = [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in files]
    return " ".join(map(shlex.quote, files))
