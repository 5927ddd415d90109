"""The agent's work as a patch: everything that differs from the prepared commit, committed or not."""

import secrets
from dataclasses import dataclass

from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.prepare import BASE_REF, GIT
from sweyard_sandbox.tasks.task import Task

EXTRACT_TIMEOUT_SECONDS = 120.0
PATCH_CAP_BYTES = 8_000_000
TOO_LARGE = 97
"""Exit code of the script."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an agent did."""

    patch: str
    """Unified diff; bytes that are not UTF-8 are surrogate escapes."""
    left_out: tuple[str, ...] = ()
    """Binary files, which do not travel."""
    problem: str = ""
    """Why there is no patch (the agent destroyed the repository, or wrote too much); empty if all is well."""


async def extract_patch(task: Task, sandbox: Sandbox) -> Extracted:
    """Text, new, deleted and mode-changed files, and renames as both; ignored and binary files stay.

    Works on an index of its own, so that the repository's own is unchanged.
    """
    folder = f"/tmp/sweyard-extract-{secrets.token_hex(8)}"
    result = await sandbox.run(_script(folder), timeout_seconds=EXTRACT_TIMEOUT_SECONDS, output_cap_bytes=100_000)
    if result.exit_code == TOO_LARGE:
        return Extracted("", problem=f"the patch has more than {PATCH_CAP_BYTES} bytes")
    if result.exit_code != 0:
        return Extracted("", problem=f"git could not compare the work: {result.text[-300:]}")
    patch = await sandbox.read(f"{folder}/patch")
    await sandbox.run(f"rm -rf {folder}", timeout_seconds=EXTRACT_TIMEOUT_SECONDS)
    left_out = tuple(filter(None, result.text.split("\0")))
    return Extracted(patch.decode("utf-8", "surrogateescape"), left_out)


def _script(folder: str) -> str:
    options = (
        "--cached --no-renames --no-ext-diff --no-textconv --full-index --no-color --src-prefix=a/ --dst-prefix=b/"
    )
    diff = f"{GIT} -c core.quotePath=true diff {options}"
    return f"""set -e
mkdir -m 700 {folder}
export GIT_INDEX_FILE={folder}/index
{GIT} read-tree {BASE_REF}
{GIT} add -A .
{diff} --numstat -z {BASE_REF} | tr '\\0' '\\n' | sed -n 's/^-\\t-\\t//p' >{folder}/binary
while IFS= read -r path; do
  printf '%s\\0' "$path"
  {GIT} reset -q {BASE_REF} -- ":(literal)$path"
done <{folder}/binary
{diff} {BASE_REF} >{folder}/patch
[ "$(wc -c <{folder}/patch)" -le {PATCH_CAP_BYTES} ] || exit {TOO_LARGE}"""
