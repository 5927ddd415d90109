"""Make a sandbox ready for an attempt: the fault in, the hidden tests out, one commit and no history."""

import shlex

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.work_files import mark_script
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task

BASE_REF = "refs/sweyard/base"
"""What the agent's work is compared with."""
PREPARE_TIMEOUT_SECONDS = 300.0

# Attributes in .git/info outrank those of the tree: no line ending conversion, no filters, no custom diff drivers.
ATTRIBUTES = "* -text !filter !ident !working-tree-encoding !diff"
GIT = (
    "git -c safe.directory=* -c core.autocrlf=false -c core.hooksPath=/dev/null -c core.fsmonitor=false "
    "-c core.fileMode=true -c gc.auto=0 -c maintenance.auto=false"
)
IDENTITY = "-c user.name=sweyard -c user.email=sweyard@localhost -c commit.gpgsign=false"


async def prepare_sandbox(task: Task, sandbox: Sandbox) -> None:
    """Turn the image's clean tree into what the agent may see.

    A task with a fault to put in gets a new repository of one commit, so that no clean version is left in it; so does
    one with files to hide, which its history holds too. Others keep their history up to HEAD; branches, tags and
    remotes that could hold the solution are removed. Where work travels as files, nothing is changed but that the state
    of the file system is noted. Raises InfrastructureError with git's words if that fails.
    """
    if task.work == "files":
        script = mark_script(task.working_directory)
    elif task.setup_patch:
        script = _fresh_repository(task)
    else:
        script = _single_commit(task) if task.grading.get("hidden_files") else _purged_repository()
    result = await sandbox.run(script, timeout_seconds=PREPARE_TIMEOUT_SECONDS)
    if result.exit_code != 0:
        raise InfrastructureError(FailureReason.ERROR, f"preparing {task.id} failed: {result.text[-500:]}")


def _hide(task: Task) -> str:
    hidden = " ".join(shlex.quote(path) for path in task.grading.get("hidden_files", ()))
    return f"rm -rf -- {hidden}" if hidden else ""


def _fresh_repository(task: Task) -> str:
    return f"""set -e
rm -rf .git
{GIT} init -q --template= .
mkdir -p .git/info
echo '{ATTRIBUTES}' >.git/info/attributes
echo __pycache__/ >.git/info/exclude
printf %s {shlex.quote(task.setup_patch)} | {GIT} apply --whitespace=nowarn -
{_hide(task)}
{GIT} add -A -f . ':!*__pycache__*'
{GIT} {IDENTITY} commit -q -m 'The repository as it is'
{GIT} update-ref {BASE_REF} HEAD"""


def _single_commit(task: Task) -> str:
    """What the old repository tracked stays tracked, ignored or not; its environment (.venv) is no part of the work.

    Repositories within it become plain folders: their history may tell as much, and has lost its place.
    """
    return f"""set -e
{_hide(task)}
find . -mindepth 2 -path './.venv/*' -prune -o -name .git -print0 | xargs -0 -r rm -rf
{GIT} add -u .
{GIT} ls-files -z >/tmp/sweyard-tracked
rm -rf .git
{GIT} init -q --template= .
mkdir -p .git/info
echo '{ATTRIBUTES}' >.git/info/attributes
printf '__pycache__/\\n/.venv/\\n' >.git/info/exclude
{GIT} add -A .
{GIT} add -f --pathspec-from-file=/tmp/sweyard-tracked --pathspec-file-nul
rm /tmp/sweyard-tracked
{GIT} {IDENTITY} commit -q --allow-empty -m 'The repository as it is'
{GIT} update-ref {BASE_REF} HEAD"""


def _purged_repository() -> str:
    return f"""set -e
{GIT} checkout -q --detach
{GIT} for-each-ref --format='delete %(refname)' | {GIT} update-ref --stdin
rm -f .git/FETCH_HEAD .git/ORIG_HEAD .git/packed-refs.lock
for remote in $({GIT} remote); do {GIT} remote remove $remote; done
{GIT} reflog expire --expire=now --expire-unreachable=now --all
mkdir -p .git/info
echo '{ATTRIBUTES}' >.git/info/attributes
{GIT} add -A .
{GIT} {IDENTITY} commit -q --allow-empty -m 'The repository as it is'
{GIT} update-ref {BASE_REF} HEAD
{GIT} repack -q -a -d
{GIT} prune --expire=now"""
