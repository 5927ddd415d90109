"""Rows that carry their image, test command and log parser: SWE-rebench, SWE-rebench-V2, and sets in their form.

Fields read: instance_id, repo, base_commit, version, problem_statement, patch, test_patch, FAIL_TO_PASS, PASS_TO_PASS,
install_config (a struct, or its JSON text; of it test_cmd and log_parser), and image_name or docker_image. In V2
(image_name) the repository lies in a folder of its own name at the root, and test_cmd is run as it is; in V1
(docker_image) it lies in /testbed, as swebench 4 builds images, and test_cmd is told the hidden tests' files. Sources:
nebius/SWE-rebench and nebius/SWE-rebench-V2 on the hub, and the V2 environment's server.py. The row becomes one of
swebench 5; a parser that swebench lacks, as for some languages of V2, makes it no task.
"""

import json
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.formats.eval_script import CONDA, Testing, fields_of_testing
from sweyard_sandbox.tasks.formats.fields import tests_field, text_field
from sweyard_sandbox.tasks.formats.swe_bench import swe_bench_task
from sweyard_sandbox.tasks.task import Task

PARSERS = {
    f"parse_log_{name}"
    for name in (
        *("pytest", "pytest_options", "pytest_v2", "django", "seaborn", "sympy", "matplotlib", "gotest", "cargo"),
        *("maven", "ant", "gradle_custom", "jest", "jest_json", "vitest", "karma", "tap", "phpunit", "minitest"),
        *("ruby_unit", "googletest", "doctest"),
    )
}
"""Those of swebench 5 that belong to no single repository; learned here since importing it takes seconds."""


def swe_rebench_task(row: dict[str, Any], number: int) -> Task:
    """A Task graded as SWE-bench's are. Raises TaskFormatError."""
    label = f"row {number} ({row.get('instance_id', 'no instance_id')})"
    config = _install_config(row, label)
    parser = text_field(config, "log_parser", f"{label}: install_config")
    if parser not in PARSERS:
        raise TaskFormatError(f"{label}: install_config.log_parser {parser!r} is none of swebench's; drop the row")
    repository = text_field(row, "repo", label)
    is_first = bool(row.get("docker_image"))
    directory, setup = ("/testbed", CONDA) if is_first else (f"/{repository.rsplit('/', 1)[-1]}", ())
    testing = Testing(_command(config, label), parser, names_files=is_first)
    added = fields_of_testing(testing, row, label, directory=directory, setup=setup)
    added |= {
        "image": row.get("docker_image") or text_field(row, "image_name", label),
        "version": str(row.get("version") or ""),
    }
    added |= {name: list(tests_field(row, name, label)) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    return swe_bench_task(row | added, number).model_copy(update={"working_directory": directory})


def _install_config(row: dict[str, Any], label: str) -> dict[str, Any]:
    config = row.get("install_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            raise TaskFormatError(f"{label}: field 'install_config' is no JSON; drop the row") from None
    if not isinstance(config, dict):
        raise TaskFormatError(f"{label}: field 'install_config' must be a struct with test_cmd and log_parser")
    return config


def _command(config: dict[str, Any], label: str) -> str:
    """V2 has a list for commands in several parts."""
    command = config.get("test_cmd")
    if isinstance(command, list):
        command = " && ".join(str(part) for part in command)
    if not isinstance(command, str) or not command.strip():
        raise TaskFormatError(f"{label}: install_config.test_cmd must be a command; drop the row")
    return command.strip()
