"""Harbor tasks in real sandboxes: work that lies anywhere, and rewards that only the grading can write."""

import base64
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.extract import extract_work
from sweyard_sandbox.grading.harbor import objections, parse_reward
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.grading.work_files import (
    Files,
    WorkFormatError,
    from_text,
    pack,
    paths_of,
    to_text,
    without,
)
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.formats.harbor import harbor_task
from sweyard_sandbox.tasks.prepare import prepare_sandbox
from sweyard_sandbox.tasks.task import Task

TEST = '[ "$(cat /srv/answer)" = 42 ] && [ ! -e /testbed/wrong ]; echo $((1 - $?)) >/logs/verifier/reward.txt\n'
SOLVE = "mkdir -p /srv && echo 42 >/srv/answer && rm wrong"


def task_of(tree: Path, test: str = TEST) -> Task:
    (tree / "wrong").write_text("x")
    row = {
        "harbor_name": "answer",
        "task_toml": f'[environment]\ndocker_image = "dir:{tree}"\nworkdir = "/testbed"\n',
        "instruction": "Write the answer into /srv/answer and remove `wrong`.",
        "tests": {"test.sh": base64.b64encode(test.encode()).decode()},
        "solution": {"solve.sh": base64.b64encode(SOLVE.encode()).decode()},
    }
    return harbor_task(row, 0)


async def worked(task: Task, runtime: LocalRuntime, command: str) -> str:
    """What an agent's command leaves, as it travels."""
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        await prepare_sandbox(task, sandbox)
        await sandbox.run(command, timeout_seconds=60.0)
        work = await extract_work(task, sandbox)
    assert not work.problem
    return work.patch


FORGED = "for kind in txt json; do echo 1 >/logs/verifier/reward.$kind; done"
PROGRAM = "#!/bin/sh\\necho 42\\n"
WORK = {
    "the solution": (SOLVE, True),
    "nothing": ("true", False),
    "half of it": ("mkdir -p /srv && echo 42 >/srv/answer", False),
    "the reward itself": (f"mkdir -p /logs/verifier; {FORGED}", False),
    "a link to a reward": ("mkdir -p /logs; echo 1 >/tmp/reward.txt; ln -s /tmp /logs/verifier", False),
    "a folder that cannot be written": ("mkdir -p /logs/verifier; chmod 555 /logs/verifier", False),
    "own tests": (f"mkdir -p /tests; echo '{FORGED}' >/tests/test.sh", False),
    "an own cat": (
        f"rm -f wrong; mkdir -p /usr/local/bin; printf '{PROGRAM}' >/usr/local/bin/cat; chmod +x /usr/local/bin/cat",
        False,
    ),
    "the solution, with a start-up hook beside it": (f"{SOLVE}; printf x >~/.bashrc", True),
}


@pytest.mark.parametrize(("command", "solved"), WORK.values(), ids=WORK)
async def test_only_honest_work_is_rewarded(tmp_path: Path, runtime: LocalRuntime, command: str, solved: bool) -> None:
    task = task_of(tmp_path)

    grade_ = await grade(task, await worked(task, runtime, command), runtime, timeout_seconds=60.0)

    assert (grade_.official, grade_.strict) == (solved, solved), grade_.log


async def test_gold_and_empty_are_told_apart(tmp_path: Path, runtime: LocalRuntime) -> None:
    task = task_of(tmp_path)

    assert (await grade(task, task.gold_patch, runtime, timeout_seconds=60.0)).strict
    assert not (await grade(task, "", runtime, timeout_seconds=60.0)).official


async def test_tests_that_write_nothing_are_a_failure_of_infrastructure(tmp_path: Path, runtime: LocalRuntime) -> None:
    with pytest.raises(InfrastructureError, match=r"wrote no reward \(exit code 3\)"):
        await grade(task_of(tmp_path, "exit 3"), "", runtime, timeout_seconds=60.0)


async def test_work_that_keeps_the_tests_from_writing_is_unsolved(tmp_path: Path, runtime: LocalRuntime) -> None:
    task = task_of(tmp_path, f"[ ! -e /testbed/ends ] || exit 3\n{TEST}")

    grade_ = await grade(task, await worked(task, runtime, "touch ends"), runtime, timeout_seconds=60.0)

    assert not grade_.official
    assert "wrote no reward (exit code 3)" in grade_.reasons[0]
    assert "without the work it is not so" in grade_.reasons[0]


@pytest.mark.parametrize(
    ("content", "reward"),
    [
        (b"1", 1.0),
        (b"0.25\n", 0.25),
        (b'{"reward": 1, "style": 0}', 1.0),
        (b'{"a": 1, "b": 0}', 0.5),
        (b"1.5", None),
        (b"-1", None),
        (b"NaN", None),
        (b"Infinity", None),
        (b"true", None),
        (b"one", None),
        (b"", None),
        (b"{}", None),
        (b'{"reward": "1"}', None),
        (b'{"reward": NaN}', None),
        (b"1" * 400, None),
        (b'{"a": 2, "b": 0}', None),
    ],
)
def test_reward_is_a_finite_number_from_0_to_1(content: bytes, reward: float | None) -> None:
    assert parse_reward(content) == ((reward, "") if reward is not None else (0.0, parse_reward(content)[1]))
    assert bool(parse_reward(content)[1]) == (reward is None)


@given(content=st.binary(max_size=60))
def test_any_reward_is_read_or_told(content: bytes) -> None:
    reward, problem = parse_reward(content)
    assert 0.0 <= reward <= 1.0
    assert not problem or reward == 0.0


@pytest.mark.parametrize(
    ("path", "is_dropped"),
    [
        ("/app/main.py", False),
        ("/srv/answer", False),
        ("/tests/test.sh", True),
        ("/logs/verifier/reward.txt", True),
        ("/usr/bin/python3", True),
        ("/usr/local/bin/pytest", True),
        ("/usr/local/bin/mytool", False),
        ("/etc/ld.so.preload", True),
        ("/etc/nginx/nginx.conf", False),
        ("/usr/lib/python3/dist-packages/sitecustomize.py", True),
        ("/usr/lib/python3/dist-packages/new.py", False),
    ],
)
def test_what_runs_the_tests_is_left_out(path: str, is_dropped: bool) -> None:
    existing = frozenset(["/usr/bin/python3"])

    assert objections(existing, "pytest /tests/test_outputs.py", "/app")(path) == is_dropped


def archive(*members: tuple[str, bytes, str]) -> Files:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as target:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            target.addfile(member)
    return Files(buffer.getvalue())


def test_members_that_lead_elsewhere_are_left_out() -> None:
    files = archive(
        ("a", tarfile.REGTYPE, ""),
        ("../b", tarfile.REGTYPE, ""),
        ("/c", tarfile.REGTYPE, ""),
        ("d", tarfile.LNKTYPE, "a"),
        ("e", tarfile.CHRTYPE, ""),
        ("f", tarfile.SYMTYPE, "/usr/bin"),
        ("f/python3", tarfile.REGTYPE, ""),
    )

    kept = without(files, lambda path: False)

    assert paths_of(kept) == ["/a", "/f"]


@given(text=st.text(max_size=80))
def test_any_text_is_work_or_told(text: str) -> None:
    try:
        files = without(from_text(text), lambda path: False)
    except WorkFormatError:
        return
    assert from_text(to_text(files)) == Files(files.packed, files.removed)


def test_work_travels_as_text_and_back() -> None:
    files = Files(pack({"/a/b": b"\0x", "/run.sh": b"#!/bin/sh\n"}), ("/gone",))

    assert from_text(to_text(files)) == files
