"""SWE-bench rows (Lite, Verified, full), in the schema of swebench 4 and before, and in that of swebench 5.

Both: instance_id, repo, base_commit, problem_statement, patch, test_patch, version, FAIL_TO_PASS, PASS_TO_PASS
(JSON text or list); Verified adds difficulty. Schema 5 (swebench 5, harness/utils.py make_test_spec) adds image,
log_parser, eval_type and eval_script. In schema 4 the image's name is made from the id, and the script from what
swebench 4 said of the repository's tests. A row in schema 4 of an unknown repository is a task that cannot be graded.
"""

from typing import Any

from sweyard_sandbox.tasks.formats.eval_script import fields_of_testing
from sweyard_sandbox.tasks.formats.fields import difficulty_tags, tests_field, text_field
from sweyard_sandbox.tasks.formats.testing_commands import swe_bench_testing
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"
FIELDS_OF_SCHEMA_5 = ("image", "log_parser", "eval_type", "eval_script")


def swe_bench_task(row: dict[str, Any], number: int) -> Task:
    """A Task whose `grading` is the row, in schema 5 where that can be had. Raises TaskFormatError."""
    label = f"row {number} ({row.get('instance_id', 'no instance_id')})"
    instance = text_field(row, "instance_id", label)
    if not all(row.get(name) for name in FIELDS_OF_SCHEMA_5):
        row = _completed(row, label)
    return Task(
        id=instance,
        repository=text_field(row, "repo", label),
        image=text_field(row, "image", label),
        working_directory=WORKING_DIRECTORY,
        problem_statement=text_field(row, "problem_statement", label),
        gold_patch=text_field(row, "patch", label),
        fail_to_pass=tests_field(row, "FAIL_TO_PASS", label),
        pass_to_pass=tests_field(row, "PASS_TO_PASS", label),
        grading={"row": row},
        grader="swe-bench",
        tags=difficulty_tags(row.get("difficulty")),
    )


def _completed(row: dict[str, Any], label: str) -> dict[str, Any]:
    """With what schema 5 adds; without it for a repository that swebench 4 did not know."""
    repository = text_field(row, "repo", label)
    row = row | {"image": row.get("image") or image_of(text_field(row, "instance_id", label))}
    testing = swe_bench_testing(repository, str(row.get("version")))
    if testing is None or not row.get("test_patch") or not row.get("base_commit"):
        return row
    return row | fields_of_testing(testing, row, label, directory=WORKING_DIRECTORY)


def image_of(instance: str) -> str:
    """Name of the published image; the registry does not allow double underscores."""
    return f"swebench/sweb.eval.x86_64.{instance.lower().replace('__', '_1776_')}:latest"
