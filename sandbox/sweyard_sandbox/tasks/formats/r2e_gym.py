"""R2E-Gym rows (Subset, Lite, V1).

Fields read: docker_image (with tag), repo_name, commit_hash, problem_statement, expected_output_json (JSON text:
test name -> status), and parsed_commit_content, from which the gold patch cannot always be had. There are no lists of
tests to turn: every test must end with its expected status.
"""

import json
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.formats.fields import text_field
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"


def r2e_gym_task(row: dict[str, Any], number: int) -> Task:
    """A Task whose required tests are those expected to pass. Raises TaskFormatError."""
    label = f"row {number} ({row.get('docker_image', 'no docker_image')})"
    image = text_field(row, "docker_image", label)
    try:
        expected = json.loads(text_field(row, "expected_output_json", label))
    except ValueError:
        raise TaskFormatError(f"{label}: field 'expected_output_json' is no JSON; drop the row") from None
    passing = tuple(test for test, status in expected.items() if status == "PASSED")
    return Task(
        id=image.rsplit("/", 1)[-1].replace(":", "-"),
        repository=text_field(row, "repo_name", label),
        image=image,
        working_directory=WORKING_DIRECTORY,
        problem_statement=text_field(row, "problem_statement", label),
        gold_patch=str(row.get("patch") or ""),
        fail_to_pass=passing,
        grading={"expected": expected},
        grader="r2e-gym",
    )
