"""The agent's work as a patch: applied to the clean tree it gives the same tree again."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.grading.conftest import MakeTask

from sweyard_sandbox.grading.extract import Extracted, extract_patch
from sweyard_sandbox.runtime import Result, Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.task import Task

SNAPSHOT = (
    "find . -type f -not -path './.git/*' -print0 | sort -z | xargs -0 sha256sum; git diff --cached --stat; git status"
)
WORK = """
printf 'x = 1\\r\\ny = 2\\r\\n' >crlf.py
printf 'no newline' >till/last.py
mkdir -p deep/er && echo 'z = 3' >deep/er/new.py
git mv README.md READ.md
git add -A && git -c user.name=a -c user.email=a@b commit -qm half
git rm -q till/__init__.py
chmod +x till/sums.py
sed -i 's/-=/+=/' till/sums.py
printf 'caf\\351\\n' >latin.txt
echo 'with spaces' >'a file with spaces.txt'
echo 'umlaut' >'gr\303\274n.txt'
head -c 2000000 /dev/urandom >blob.bin
echo 'built/' >.gitignore && mkdir built && echo junk >built/out.txt
echo '* text eol=crlf' >.gitattributes
"""


async def extracted(task: Task, runtime: LocalRuntime, work: str) -> tuple[Extracted, str, str]:
    """Patch, and the sandbox's files and index before and after extraction."""
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        done = await sandbox.run(f"set -e\n{work}", timeout_seconds=30.0)
        assert done.exit_code == 0, done.text
        before = (await sandbox.run(SNAPSHOT, timeout_seconds=30.0)).text
        result = await extract_patch(task, sandbox)
        return result, before, (await sandbox.run(SNAPSHOT, timeout_seconds=30.0)).text


async def replayed(task: Task, runtime: LocalRuntime, patch: str) -> str:
    """Files of a fresh sandbox with the patch."""
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        await sandbox.write("/tmp/patch", patch.encode("utf-8", "surrogateescape"))
        apply = "git -c core.autocrlf=false apply --whitespace=nowarn --allow-empty /tmp/patch"
        applied = await sandbox.run(apply, timeout_seconds=30.0)
        assert applied.exit_code == 0, applied.text
        return await files(sandbox)


async def files(sandbox: Sandbox) -> str:
    listed = "find . -type f -not -path './.git/*' -printf '%m %p\\n' -exec sha256sum {} + | sort"
    return (await sandbox.run(listed, timeout_seconds=30.0)).text


async def test_all_kinds_of_change_travel(make_task: MakeTask, runtime: LocalRuntime) -> None:
    task = make_task("unittest")

    result, before, after = await extracted(task, runtime, WORK)
    same, _, _ = await extracted(task, runtime, WORK)
    tree = await replayed(task, runtime, result.patch)

    assert result.problem == ""
    assert result.left_out == ("blob.bin",)
    assert before == after, "extraction changed the sandbox's files or index"
    assert result.patch == same.patch
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        await sandbox.run(f"{WORK}\nrm -rf blob.bin built", timeout_seconds=30.0)
        assert tree == await files(sandbox)


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        ("rm -rf .git", "git could not compare"),
        ("git update-ref -d refs/sweyard/base", "git could not compare"),
        ("seq 1 2000000 >large.txt", "more than"),
    ],
)
async def test_work_that_cannot_travel_says_why(
    make_task: MakeTask, runtime: LocalRuntime, work: str, problem: str
) -> None:
    result, _, _ = await extracted(make_task("unittest"), runtime, work)

    assert problem in result.problem
    assert result.patch == ""


@pytest.mark.parametrize(
    "trick",
    [
        "git config diff.external /bin/false",
        "git config core.fsmonitor /bin/false",
        "git config core.autocrlf true",
        "git config alias.diff status",
        "git config diff.noprefix true",
        "git config diff.mnemonicPrefix true",
        "echo '*.py diff=evil filter=evil' >.gitattributes; git config filter.evil.clean 'echo evil'",
    ],
)
async def test_settings_of_the_repository_do_not_change_the_patch(
    make_task: MakeTask, runtime: LocalRuntime, trick: str
) -> None:
    task = make_task("unittest")

    result, _, _ = await extracted(task, runtime, f"{trick}\nsed -i 's/-=/+=/' till/sums.py")

    assert result.problem == ""
    assert "--- a/till/sums.py\n+++ b/till/sums.py\n" in result.patch
    assert "+        result += price\n" in result.patch


async def test_agent_sees_neither_the_clean_version_nor_the_hidden_tests(
    make_task: MakeTask, runtime: LocalRuntime
) -> None:
    task = make_task("unittest")
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        show = "git log --all --oneline | wc -l; ls tests; "
        show += "git cat-file --batch-check --batch-all-objects | while read name rest; do git cat-file -p $name; done"
        seen = (await sandbox.run(show, timeout_seconds=30.0)).text

    assert seen.startswith("1\n")
    assert "test_sums" not in seen
    assert "result += price" not in seen
    assert "result -= price" in seen


class FolderSandbox:
    """A folder of this machine, with what extraction needs of a sandbox."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def run(self, command: str, **options: Any) -> Result:
        done = subprocess.run(["sh", "-c", command], cwd=self.root, capture_output=True, env=GIT_ENVIRONMENT)
        return Result(done.returncode, done.stdout + done.stderr)

    async def read(self, path: str, **options: Any) -> bytes:
        return Path(path).read_bytes()


GIT_ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
GIT_ENVIRONMENT |= {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def lay_out(root: Path, tree: dict[str, str], instead: Iterable[str] = ()) -> None:
    for path in instead:
        (root / path).unlink()
    for path, text in tree.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(text.encode())


def tree_of(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


async def test_later_commits_are_gone_even_from_packs_and_earlier_ones_stay(tmp_path: Path) -> None:
    def git(script: str) -> None:
        subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True, env=GIT_ENVIRONMENT)

    git("git init -q; echo 1 >a; git add a; git commit -qm first; echo 2 >a; git commit -qam base")
    git("echo solution >a; git commit -qam later; git tag v1; git repack -qad; git reset -q --hard HEAD~1")
    sandbox = FolderSandbox(tmp_path)

    await prepare_sandbox(PLAIN, sandbox)  # type: ignore[arg-type]

    show = "git log --format=%s; git cat-file --batch-check --batch-all-objects | while read name rest; do "
    seen = (await sandbox.run(f"{show} git cat-file -p $name; done")).output.decode()
    assert seen.startswith("The repository as it is\nbase\nfirst\n")
    assert "solution" not in seen


PLAIN = Task(
    id="t", repository="r", image="", working_directory="", problem_statement="", gold_patch="", fail_to_pass=()
)
CONTENTS = st.lists(st.text("ab \r\t\x0c\u00e9", max_size=4), max_size=6).map("\n".join)
TREES = st.dictionaries(st.sampled_from(["a.py", "b c.txt", "d/e.py", "\u00fc.txt"]), CONTENTS, max_size=4)


@settings(
    max_examples=settings.default.max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=TREES, after=TREES)
def test_patch_round_trip(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], after: dict[str, str]
) -> None:
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "target"))
    for root in (source, target):
        lay_out(root, before)
    patch = asyncio.run(patch_between(source, lambda: lay_out(source, after, instead=before)))

    subprocess.run(["git", "init", "-q"], cwd=target, check=True)
    applied = subprocess.run(
        ["git", "apply", "--allow-empty", "--whitespace=nowarn", "-"],
        cwd=target,
        input=patch.encode(),
        capture_output=True,
    )
    assert applied.returncode == 0, applied.stderr
    assert tree_of(target) == tree_of(source)


async def patch_between(root: Path, work: Callable[[], None]) -> str:
    """Extraction, in a folder of this machine instead of a sandbox."""
    sandbox = FolderSandbox(root)
    subprocess.run(
        ["sh", "-ec", "git init -q; git add -A; git commit -q --allow-empty -m x"],
        cwd=root,
        check=True,
        env=GIT_ENVIRONMENT,
    )
    await prepare_sandbox(PLAIN, sandbox)  # type: ignore[arg-type]
    work()
    return (await extract_patch(PLAIN, sandbox)).patch  # type: ignore[arg-type]
