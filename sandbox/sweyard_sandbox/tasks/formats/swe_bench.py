"""SWE-bench rows (Lite, Verified, full), in the schema of swebench 4 and before, and in that of swebench 5.

Both: instance_id, repo, base_commit, problem_statement, patch, test_patch, version, FAIL_TO_PASS, PASS_TO_PASS
(JSON text or list). Schema 5 adds image, log_parser, eval_type and eval_script; in schema 4 the image's name is made
from the id, and the evaluation script is not in the row.
"""

from typing import Any

from sweyard_sandbox.tasks.formats.fields import tests_field, text_field
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"
FIELDS_OF_SCHEMA_5 = ("image", "log_parser", "eval_type", "eval_script")


def swe_bench_task(row: dict[str, Any], number: int) -> Task:
    """A Task whose `grading` is the row. Raises TaskFormatError."""
    label = f"row {number} ({row.get('instance_id', 'no instance_id')})"
    instance = text_field(row, "instance_id", label)
    schema = 5 if all(row.get(name) for name in FIELDS_OF_SCHEMA_5) else 4
    return Task(
        id=instance,
        repository=text_field(row, "repo", label),
        image=text_field(row, "image", label) if schema == 5 else image_of(instance),
        working_directory=WORKING_DIRECTORY,
        problem_statement=text_field(row, "problem_statement", label),
        gold_patch=text_field(row, "patch", label),
        fail_to_pass=tests_field(row, "FAIL_TO_PASS", label),
        pass_to_pass=tests_field(row, "PASS_TO_PASS", label),
        grading={"schema": schema, "row": row},
        grader="swe-bench",
    )


def image_of(instance: str) -> str:
    """Name of the published image; the registry does not allow double underscores."""
    return f"swebench/sweb.eval.x86_64.{instance.lower().replace('__', '_1776_')}:latest"
