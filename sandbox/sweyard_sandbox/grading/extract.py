"""The agent's work: a patch of everything that differs from the prepared commit, or the files that it changed."""

import secrets
from dataclasses import dataclass

from sweyard_sandbox.grading.patch import join_patch, split_patch
from sweyard_sandbox.grading.work_files import PACKED_CAP_BYTES, WorkFormatError, pack_script, parse_packed, to_text
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.prepare import BASE_REF, GIT
from sweyard_sandbox.tasks.task import Task

EXTRACT_TIMEOUT_SECONDS = 120.0
PATCH_CAP_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an agent did."""

    patch: str
    """Unified diff; bytes that are not UTF-8 are surrogate escapes."""
    left_out: tuple[str, ...] = ()
    """Binary files, which do not travel."""
    problem: str = ""
    """Why there is no patch (the agent destroyed the repository, or wrote too much); empty if all is well."""


async def extract_work(task: Task, sandbox: Sandbox) -> Extracted:
    """What the agent did, in the form in which this task's work travels; for changed files as text (work_files.py)."""
    if task.work == "patch":
        return await extract_patch(task, sandbox)
    script = pack_script(task.working_directory)
    result = await sandbox.run(script, timeout_seconds=EXTRACT_TIMEOUT_SECONDS, output_cap_bytes=PACKED_CAP_BYTES)
    if result.truncated:
        return Extracted("", problem=f"the changed files have more than {PACKED_CAP_BYTES} bytes, compressed")
    try:
        return Extracted(to_text(parse_packed(result.output)))
    except WorkFormatError as error:
        return Extracted("", problem=f"{error}: {result.text[-300:]}")


async def extract_patch(task: Task, sandbox: Sandbox) -> Extracted:
    """Text, new, deleted and mode-changed files, and renames as both; ignored and binary files stay.

    Works on an index of its own, so that the repository's own is unchanged.
    """
    script = _script(index=f"/tmp/sweyard-index-{secrets.token_hex(8)}")
    result = await sandbox.run(script, timeout_seconds=EXTRACT_TIMEOUT_SECONDS, output_cap_bytes=PATCH_CAP_BYTES)
    if result.exit_code != 0:
        return Extracted("", problem=f"git could not compare the work: {result.text[-300:]}")
    if result.truncated:
        return Extracted("", problem=f"the patch has more than {PATCH_CAP_BYTES} bytes")
    sections = split_patch(result.output.decode("utf-8", "surrogateescape"))
    travelling = [section for section in sections if not section.is_binary]
    return Extracted(join_patch(travelling), tuple(section.path for section in sections if section.is_binary))


def _script(index: str) -> str:
    """Prints the patch alone; what goes wrong goes to stdout too, with an exit code."""
    options = (
        "--cached --no-renames --no-ext-diff --no-textconv --full-index --no-color --src-prefix=a/ --dst-prefix=b/"
    )
    return f"""set -e
export GIT_INDEX_FILE={index}
{GIT} read-tree {BASE_REF}
said=$({GIT} add -A . 2>&1) || {{ echo "$said"; exit 1; }}
{GIT} -c core.quotePath=true diff {options} {BASE_REF}
rm -f {index}"""
