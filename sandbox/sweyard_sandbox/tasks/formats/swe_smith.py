"""SWE-smith rows of Python repositories.

Fields read: instance_id, repo (swesmith/OWNER__NAME.COMMIT), image_name, problem_statement, patch (which puts the fault
in; the solution is its reverse), FAIL_TO_PASS and PASS_TO_PASS (test ids of pytest). The image has the sound repository
in /testbed and its interpreter in the conda environment `testbed`.

SWE-smith's rule is that every test of both lists passes, which is that of the tasks made here: the same grader serves.
It runs the tests without the repository's pytest settings; a task that needs them fails with its own solution, and is
quarantined before its first use.
"""

from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.diff import reversed_patch
from sweyard_sandbox.tasks.formats.fields import tests_field, text_field
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"
PYTHON = "/opt/miniconda3/envs/testbed/bin/python"


def swe_smith_task(row: dict[str, Any], number: int) -> Task:
    """A Task with the fault as its setup patch. Raises TaskFormatError."""
    label = f"row {number} ({row.get('instance_id', 'no instance_id')})"
    failing, passing = tests_field(row, "FAIL_TO_PASS", label), tests_field(row, "PASS_TO_PASS", label)
    if not failing:
        raise TaskFormatError(f"{label}: field 'FAIL_TO_PASS' is empty; drop the row")
    if foreign := [test for test in (*failing, *passing) if not test.split("::", 1)[0].endswith(".py")]:
        raise TaskFormatError(f"{label}: {foreign[0]!r} is no test of pytest; drop the row")
    fault = text_field(row, "patch", label)
    return Task(
        id=text_field(row, "instance_id", label),
        repository=text_field(row, "repo", label).removeprefix("swesmith/"),
        image=text_field(row, "image_name", label),
        working_directory=WORKING_DIRECTORY,
        problem_statement=text_field(row, "problem_statement", label),
        gold_patch=reversed_patch(fault),
        setup_patch=fault,
        fail_to_pass=failing,
        pass_to_pass=passing,
        grading={
            "runner": "pytest",
            "python": PYTHON,
            "python_path": ["."],
            "test_files": _files((*failing, *passing)),
            "hidden_files": _files(failing),
        },
    )


def _files(tests: tuple[str, ...]) -> list[str]:
    return sorted({test.split("::", 1)[0] for test in tests})
