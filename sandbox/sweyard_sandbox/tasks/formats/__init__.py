"""One adapter a row schema: from a data set's row to a Task."""

from collections.abc import Callable, Mapping
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.formats.harbor import harbor_task
from sweyard_sandbox.tasks.formats.kodcode import kodcode_task
from sweyard_sandbox.tasks.formats.multi_swe import multi_swe_task
from sweyard_sandbox.tasks.formats.r2e_gym import r2e_gym_task
from sweyard_sandbox.tasks.formats.swe_bench import swe_bench_task
from sweyard_sandbox.tasks.formats.swe_gym import swe_gym_task
from sweyard_sandbox.tasks.formats.swe_rebench import swe_rebench_task
from sweyard_sandbox.tasks.formats.swe_smith import swe_smith_task
from sweyard_sandbox.tasks.formats.sweyard import sweyard_task
from sweyard_sandbox.tasks.formats.testing_commands import SWE_GYM
from sweyard_sandbox.tasks.task import Task

Adapter = Callable[[dict[str, Any], int], Task]
"""Row and its number to a Task. Raises TaskFormatError naming row, field and remedy."""

ADAPTERS: Mapping[str, Adapter] = {
    "sweyard": sweyard_task,
    "swe-bench": swe_bench_task,
    "r2e-gym": r2e_gym_task,
    "swe-smith": swe_smith_task,
    "swe-gym": swe_gym_task,
    "swe-rebench": swe_rebench_task,
    "multi-swe": multi_swe_task,
    "kodcode": kodcode_task,
    "harbor": harbor_task,
}


def detect_format(row: Mapping[str, Any], number: int) -> str:
    """Schema of a row, by the fields that only it has. Raises TaskFormatError if none fits."""
    if "harbor_name" in row:
        return "harbor"
    if "setup_patch" in row or "fail_to_pass" in row:
        return "sweyard"
    if "expected_output_json" in row and "docker_image" in row:
        return "r2e-gym"
    if {"question", "solution"} <= row.keys() and {"test", "test_code"} & row.keys():
        return "kodcode"
    if "install_config" in row and {"image_name", "docker_image"} & row.keys():
        return "swe-rebench"
    if "image_name" in row and "FAIL_TO_PASS" in row and "test_patch" not in row:
        return "swe-smith"
    if "instance_id" in row and "FAIL_TO_PASS" in row:
        return "swe-gym" if str(row.get("repo")) in SWE_GYM and "eval_script" not in row else "swe-bench"
    if {"org", "number", "fix_patch"} <= row.keys():
        return "multi-swe"
    raise TaskFormatError(
        f"row {number}: the fields {sorted(row)[:12]} fit no known format; set `format` in the source, or drop the row"
    )
