"""Multi-SWE rows (Multi-SWE-bench, Multi-SWE-RL) of Go and Rust.

Fields read: org, repo, number, base (a struct, of it sha), resolved_issues (structs of title and body), title, body,
fix_patch, test_patch, fixed_tests and p2p_tests (structs with the tests' names as keys), and instance_id where there is
one. The image is mswebench/ORG_m_REPO:pr-NUMBER; it has the repository in /home/REPO and its tests' command in
/home/run.sh, and beside that the solution, which agents must not find. Source: the sets' data cards on the hub, and
multi_swe_bench/harness of multi-swe-bench/multi-swe-bench.

Their harness reads logs by a class for each repository. Those of Go and Rust read what `go test -v` and `cargo test`
print, as parsers of swebench 5 do, so the row becomes one of swebench 5. Rows of other languages are no tasks.
"""

from pathlib import PurePosixPath
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.tasks.formats.eval_script import Testing, fields_of_testing
from sweyard_sandbox.tasks.formats.fields import text_field
from sweyard_sandbox.tasks.formats.swe_bench import swe_bench_task
from sweyard_sandbox.tasks.task import Task

PARSERS = {".go": "parse_log_gotest", ".rs": "parse_log_cargo"}
"""By the ending of the files that hold tests."""
COMMAND = "bash /home/run.sh"
SOLUTION_IN_IMAGE = ("/home/fix.patch", "/home/test.patch")


def multi_swe_task(row: dict[str, Any], number: int) -> Task:
    """A Task graded as SWE-bench's are. Raises TaskFormatError."""
    organization, repository = (str(row.get(name) or "") for name in ("org", "repo"))
    identity = row.get("instance_id") or f"{organization}__{repository}-{row.get('number')}"
    label = f"row {number} ({identity})"
    base = row.get("base")
    directory = f"/home/{repository}"
    told = {
        "instance_id": str(identity),
        "repo": f"{organization}/{repository}",
        "base_commit": base.get("sha") if isinstance(base, dict) else None,
        "version": str(row.get("number")),
        "problem_statement": _statement(row),
        "patch": row.get("fix_patch"),
        "test_patch": row.get("test_patch"),
        "FAIL_TO_PASS": _names(row, "fixed_tests", label),
        "PASS_TO_PASS": _names(row, "p2p_tests", label),
        "image": f"mswebench/{organization}_m_{repository}:pr-{row.get('number')}".lower(),
    }
    told |= fields_of_testing(Testing(COMMAND, _parser(told, label)), told, label, directory=directory, setup=())
    task = swe_bench_task(told, number)
    hidden = {"hidden_files": list(SOLUTION_IN_IMAGE)}
    return task.model_copy(update={"working_directory": directory, "grading": task.grading | hidden})


def _parser(row: dict[str, Any], label: str) -> str:
    endings = {PurePosixPath(section.path).suffix for section in split_patch(text_field(row, "test_patch", label))}
    if len(found := endings & PARSERS.keys()) != 1:
        known = " or ".join(PARSERS)
        raise TaskFormatError(f"{label}: its tests are in {', '.join(sorted(endings))}, not in {known}; drop the row")
    return PARSERS[found.pop()]


def _names(row: dict[str, Any], name: str, label: str) -> list[str]:
    value = row.get(name)
    if not isinstance(value, dict) or (name == "fixed_tests" and not value):
        raise TaskFormatError(f"{label}: field {name!r} must be a struct of tests; drop the row")
    return sorted(value)


def _statement(row: dict[str, Any]) -> str:
    """The issues that the change resolves; the change's own words where none is named."""
    issues = row.get("resolved_issues")
    told = [issue for issue in issues if isinstance(issue, dict)] if isinstance(issues, list) else []
    words = [issue.get(name) for issue in told or [row] for name in ("title", "body")]
    return "\n\n".join(word for word in words if isinstance(word, str) and word.strip())
