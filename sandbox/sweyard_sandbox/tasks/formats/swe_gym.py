"""SWE-Gym rows (SWE-Gym, SWE-Gym-Lite).

Fields read: instance_id, repo, base_commit, version, problem_statement, patch, test_patch, FAIL_TO_PASS, PASS_TO_PASS
(SWE-Gym/SWE-Gym on the hub; the schema of swebench 4 without environment_setup_commit). The image is
xingyaoww/sweb.eval.x86_64.INSTANCE with `_s_` for `__`; it has the repository in /testbed and its interpreter in the
conda environment `testbed`. The row becomes one of swebench 5, so that its grading reads the log.
"""

from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.formats.eval_script import fields_of_testing
from sweyard_sandbox.tasks.formats.fields import text_field
from sweyard_sandbox.tasks.formats.swe_bench import WORKING_DIRECTORY, swe_bench_task
from sweyard_sandbox.tasks.formats.testing_commands import SWE_GYM
from sweyard_sandbox.tasks.task import Task


def swe_gym_task(row: dict[str, Any], number: int) -> Task:
    """A Task graded as SWE-bench's are. Raises TaskFormatError."""
    label = f"row {number} ({row.get('instance_id', 'no instance_id')})"
    repository = text_field(row, "repo", label)
    if repository not in SWE_GYM:
        raise TaskFormatError(f"{label}: 'repo' {repository!r} is none of SWE-Gym's, so its test command is unknown")
    added = fields_of_testing(SWE_GYM[repository], row, label, directory=WORKING_DIRECTORY)
    instance = text_field(row, "instance_id", label)
    added["image"] = f"xingyaoww/sweb.eval.x86_64.{instance.lower().replace('__', '_s_')}:latest"
    return swe_bench_task(added | row, number)
