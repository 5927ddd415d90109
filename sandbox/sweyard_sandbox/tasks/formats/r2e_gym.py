"""R2E-Gym rows (Subset, Lite, V1).

Fields read: docker_image (with tag), repo_name, problem_statement, expected_output_json (JSON text: test name ->
status after the true commit), execution_result_content (JSON text; of it test_file_names and test_file_codes, the
hidden tests) and parsed_commit_content (JSON text; of each of its file_diffs the path in header.file,
old_file_content and new_file_content). There are no lists of tests to turn: every test must end with its expected
status. The image has the repository in /testbed, at the parent of the true commit, with run_tests.sh beside it, an
interpreter in .venv, and the hidden tests in /r2e_tests.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.diff import file_patch
from sweyard_sandbox.tasks.formats.fields import text_field
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"
HIDDEN_FILES = (
    *("/r2e_tests", "r2e_tests", "run_tests.sh", "expected_test_output.json", "execution_result.json"),
    *("parsed_commit.json", "modified_files.json", "modified_entities.json", "syn_issue.json"),
)
"""What the agent must not find: tests, what they should say, and what the true commit changed."""
TEST_FOLDERS = {"tests", "Tests", "test", "Test"}
ISSUE = re.compile(r"\[ISSUE\](.*)\[/ISSUE\]", re.DOTALL)


def r2e_gym_task(row: dict[str, Any], number: int) -> Task:
    """A Task whose required tests are those expected to pass. Raises TaskFormatError."""
    label = f"row {number} ({row.get('docker_image', 'no docker_image')})"
    image = text_field(row, "docker_image", label)
    expected = _json_object(row, "expected_output_json", label)
    statement = text_field(row, "problem_statement", label)
    issue = ISSUE.search(statement)
    return Task(
        id=image.rsplit("/", 1)[-1].replace(":", "-"),
        repository=text_field(row, "repo_name", label),
        image=image,
        working_directory=WORKING_DIRECTORY,
        problem_statement=issue[1].strip() if issue else statement,
        gold_patch=_gold_patch(row, label),
        fail_to_pass=tuple(test for test, status in expected.items() if status == "PASSED"),
        grading={"expected": expected, "hidden_tests": _hidden_tests(row, label), "hidden_files": list(HIDDEN_FILES)},
        grader="r2e-gym",
    )


def _json_object(row: dict[str, Any], name: str, label: str) -> dict[str, Any]:
    try:
        value = json.loads(text_field(row, name, label))
    except (ValueError, RecursionError):
        raise TaskFormatError(f"{label}: field {name!r} is no JSON; drop the row") from None
    if not isinstance(value, dict):
        raise TaskFormatError(f"{label}: field {name!r} is no JSON object; drop the row")
    return value


def _hidden_tests(row: dict[str, Any], label: str) -> dict[str, str]:
    """File name below r2e_tests -> text; empty where the row leaves them to the image."""
    if not row.get("execution_result_content"):
        return {}
    content = _json_object(row, "execution_result_content", label)
    names, codes = (content.get(name) or [] for name in ("test_file_names", "test_file_codes"))
    if not isinstance(names, list) or not isinstance(codes, list):
        raise TaskFormatError(f"{label}: test_file_names and test_file_codes must be lists; drop the row")
    if len(names) != len(codes) or any(not isinstance(text, str) for text in (*names, *codes)):
        raise TaskFormatError(f"{label}: test_file_names and test_file_codes do not pair up; drop the row")
    if wrong := [name for name in names if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]:
        raise TaskFormatError(f"{label}: test file {wrong[0]!r} lies outside of the tests' folder; drop the row")
    return dict(zip(names, codes, strict=True))


def _gold_patch(row: dict[str, Any], label: str) -> str:
    """What the true commit did to modules of Python that are no tests; empty where the row does not tell."""
    if row.get("patch") or not row.get("parsed_commit_content"):
        return str(row.get("patch") or "")
    diffs = _json_object(row, "parsed_commit_content", label).get("file_diffs") or []
    try:
        work = [diff for diff in diffs if _is_work(diff["header"]["file"]["path"])]
        return "".join(
            file_patch(diff["header"]["file"]["path"], diff["old_file_content"], diff["new_file_content"])
            for diff in work
        )
    except (KeyError, TypeError):
        raise TaskFormatError(f"{label}: 'parsed_commit_content' lacks a path or the texts of a file") from None


def _is_work(path: str) -> bool:
    *folders, name = path.split("/")
    is_test = name.startswith("test_") or name.endswith("_test.py") or TEST_FOLDERS.intersection(folders)
    return name.endswith(".py") and not is_test
