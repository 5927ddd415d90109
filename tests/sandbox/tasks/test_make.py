"""Tasks from a local repository: verified by the real grader, deterministic, resumable."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.sandbox.tasks.small_package import pytest_suite, unittest_suite, write_repository

from sweyard_api.workload import Agent as AgentSpec
from sweyard_api.workload import TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.build import difficulty_of
from sweyard_sandbox.tasks.check import check_tasks
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.make import Options, Quotas, make_dataset
from sweyard_sandbox.tasks.making import Making, run
from sweyard_sandbox.tasks.mutation.find import find_mutations
from sweyard_sandbox.tasks.sizes import TooFewTasksError
from sweyard_sandbox.tasks.source import SourceError, copy_repository
from sweyard_sandbox.tasks.suite import discover
from sweyard_sandbox.tasks.verify import Work, prepare_worker, verify


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("make")


@pytest.fixture(scope="module")
def repositories(work: Path) -> tuple[Path, Path]:
    return (
        write_repository(work / "gauge", "gauge", unittest_suite("gauge")),
        write_repository(work / "dial", "dial", pytest_suite("dial")),
    )


@pytest.fixture(scope="module")
def quick_repositories(work: Path, repositories: tuple[Path, Path]) -> tuple[Path, Path]:
    """Two whose tests unittest runs, which starts ten times as fast as pytest."""
    return repositories[0], write_repository(work / "level", "level", unittest_suite("level"))


@pytest.fixture(scope="module")
def quick_dataset(work: Path, quick_repositories: tuple[Path, Path]) -> Path:
    return make(work, *quick_repositories, jobs=1, name="quick")


@pytest.fixture(scope="module")
def dataset(work: Path, repositories: tuple[Path, Path]) -> Path:
    """Made once for the tests that only look at it."""
    return make(work, *repositories)


def make(work: Path, *repositories: Path, jobs: int = 2, name: str = "demo", seed: int = 0) -> Path:
    options = Options(seed=seed, quotas=Quotas(train=4, heldout=2), jobs=jobs)
    return run(Making(name=name, cache=work / "cache", repositories=repositories, options=options))


@pytest.mark.parametrize(
    ("failing", "difficulty"), [(1, "hard"), (2, "medium"), (4, "medium"), (5, "easy"), (20, "easy")]
)
def test_difficulty_is_how_few_tests_notice_the_bug(failing: int, difficulty: str) -> None:
    assert difficulty_of(failing) == difficulty


def test_each_task_says_its_difficulty(dataset: Path) -> None:
    for task in load_tasks(TaskSource(dataset=str(dataset)), []):
        assert f"difficulty:{difficulty_of(len(task.fail_to_pass))}" in task.tags


async def test_tasks_are_verified_by_the_real_grader(dataset: Path) -> None:
    tasks = load_tasks(TaskSource(dataset="demo"), [dataset.parent])
    runtime = LocalRuntime()

    checked = await check_tasks(tasks, runtime, timeout_seconds=30.0, concurrency=2)
    spoilt = [
        tasks[0].model_copy(update={"gold_patch": ""}),
        tasks[0].model_copy(update={"fail_to_pass": tasks[0].pass_to_pass}),
        tasks[0].model_copy(update={"setup_patch": tasks[0].gold_patch}),
    ]
    quarantined = await check_tasks(spoilt, runtime, timeout_seconds=30.0, concurrency=1)
    await runtime.close()

    assert [each.quarantined for each in checked] == [""] * 6
    assert [reason.split(":")[0] for reason in (each.quarantined for each in quarantined)] == [
        "the gold patch does not solve it",
        "the empty patch solves it",
        "could not be graded",
    ]


def test_what_a_task_says(dataset: Path) -> None:
    tasks = load_tasks(TaskSource(dataset=str(dataset)), [])
    short = make_agent(AgentSpec(type="short"))

    assert {task.grading["runner"] for task in tasks} == {"unittest", "pytest"}
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks:
        removed = next(line for line in task.gold_patch.split("\n") if line.startswith("-    "))[1:].strip()
        mended = next(line for line in task.gold_patch.split("\n") if line.startswith("+    "))[1:].strip()
        assert task.context["path"] not in task.problem_statement
        assert mended not in task.problem_statement
        assert "case_" in task.problem_statement
        assert removed in [text.strip() for _, text in task.context["lines"]]
        assert len(short.scripted(task, correct=True, seed=0)) == 4
    assert (dataset / "images" / "gauge" / "Dockerfile").read_text().count("trees/gauge") == 1
    assert "| gauge | local | MIT |" in (dataset / "README.md").read_text()


def test_splits_share_no_function(dataset: Path) -> None:
    by_split = {
        split: {
            (task.repository, task.context["function"])
            for task in load_tasks(TaskSource(dataset=str(dataset), split=split), [])
        }
        for split in ("train", "heldout")
    }

    assert by_split["train"]
    assert by_split["heldout"]
    assert not by_split["train"] & by_split["heldout"]


def test_same_seed_gives_the_same_bytes_whatever_the_jobs(
    quick_dataset: Path, work: Path, quick_repositories: tuple[Path, Path]
) -> None:
    one, three, other = (
        (folder / "tasks.jsonl.gz").read_bytes()
        for folder in (
            quick_dataset,
            make(work, *quick_repositories, jobs=3, name="three"),
            make(work, *quick_repositories, name="other", seed=5),
        )
    )

    assert one == three != other


def test_a_data_set_that_is_complete_is_not_written_again(
    quick_dataset: Path, work: Path, quick_repositories: tuple[Path, Path]
) -> None:
    """Runs may be reading it."""

    def state() -> dict[Path, tuple[int, int]]:
        files = [quick_dataset, *quick_dataset.rglob("*")]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}

    before = state()
    make(work, *quick_repositories, name="quick", jobs=1)
    assert state() == before


def test_interrupted_making_goes_on_where_it_was(
    quick_dataset: Path, work: Path, quick_repositories: tuple[Path, Path]
) -> None:
    lines = (quick_dataset / "verified.jsonl").read_text().splitlines(keepends=True)
    half = quick_dataset.parent / "half"
    half.mkdir()
    (half / "verified.jsonl").write_text("".join(lines[: len(lines) // 2]) + '{"package": "torn')

    make(work, *quick_repositories, name="half", jobs=1)

    assert (half / "tasks.jsonl.gz").read_bytes() == (quick_dataset / "tasks.jsonl.gz").read_bytes()
    keys = [json.loads(line)["key"] for line in (half / "verified.jsonl").read_text().splitlines()]
    assert sorted(keys) == sorted(json.loads(line)["key"] for line in lines)


def test_mutation_that_hangs_makes_no_task(tmp_path: Path) -> None:
    source = "def climb(limit):\n    number = 0\n    while number < limit:\n        number += 1\n    return number\n"
    test = "from loop.core import climb\n\n\ndef test_climb():\n    assert climb(3) == 3\n"
    root = write_repository(tmp_path / "loop", "loop", test, source)
    suite = discover(root)
    hanging = next(each for each in find_mutations("loop/core.py", source) if each.new == "-=")

    # In a small process: one that holds a whole test session has little left under the limits of a verification.
    work = Work(root, suite.runner, suite.python_path, hanging, tuple(suite.coverage))
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=prepare_worker, initargs=(suite.runner, str(tmp_path))
    ) as worker:
        assert worker.submit(verify, work).result().rejected == "hangs"


def test_suite_of_a_source_folder_is_found(tmp_path: Path, repositories: tuple[Path, Path]) -> None:
    source = copy_repository(repositories[1], tmp_path)
    suite = discover(source.root)

    assert (suite.runner, suite.python_path, suite.test_files) == ("pytest", (".",), ("tests/test_core.py",))
    assert suite.source_files == ("dial/__init__.py", "dial/core.py")
    assert suite.covering("dial/core.py", 10) == ["tests/test_core.py::test_case_4", "tests/test_core.py::test_case_5"]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"pkg/core.py": "x = 1\n"}, "no test files"),
        (
            {"pkg/core.py": "x = 1\n", "test_a.py": "import pytest\n\ndef test_a():\n    assert 0\n"},
            "none of its tests passes",
        ),
        ({"test_a.py": "import os\n\nclass A:\n    os._exit(3)\n"}, "ended their process"),
    ],
)
def test_source_without_a_passing_suite_says_so(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    for path, text in files.items():
        (tmp_path / "pkg").mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    with pytest.raises(SourceError, match=sentence):
        discover(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, "name at least one source"),
        ({"packages": ["toolz"]}, "name a version"),
        ({"repositories": [Path("/nonexistent")]}, "no such directory"),
        ({"options": Options(kinds=frozenset({"typo"}))}, "unknown"),
        ({"name": "../x"}, "must be letters"),
    ],
)
def test_what_cannot_be_made_says_what_to_do(tmp_path: Path, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence):
        run(Making(**{"name": "x", "cache": tmp_path, **wrong}))


def test_a_source_without_tests_leaves_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "core.py").write_text("x = 1\n")

    with pytest.raises(SourceError, match="no test files"):
        run(Making(name="x", cache=tmp_path / "cache", repositories=[tmp_path / "bare"]))
    assert not (tmp_path / "cache" / "datasets").exists()


def test_that_a_suite_runs_is_told_before_it_does(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    told: list[str] = []
    with pytest.raises(SourceError, match="no test files"):
        make_dataset(tmp_path / "x", [copy_repository(tmp_path / "bare", tmp_path)], [], Options(), told.append)
    assert told == ["bare local: running its own tests, twice"]


def test_a_making_that_is_terminated_leaves_no_temporary_folder(
    tmp_path: Path, repositories: tuple[Path, Path]
) -> None:
    command = [sys.executable, "-m", "sweyard_cli", "tasks", "make", "--name", "x", "--cache", str(tmp_path / "cache")]
    # Sockets lie in it, whose names may not be as long as those of the test's own directory.
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        with subprocess.Popen([*command, "--repo", str(repositories[0]), "--train", "500"], env=environment) as process:
            while not list(Path(temporary).glob("sweyard-verify-*/*")):
                assert process.poll() is None
                time.sleep(0.01)
            process.terminate()
            assert process.wait() == 128 + signal.SIGTERM
        assert not list(Path(temporary).glob("sweyard-*"))


def test_a_signal_that_comes_while_a_worker_is_started_ends_the_making(
    tmp_path: Path, repositories: tuple[Path, Path]
) -> None:
    """A worker that its pool does not know of would take the word to end that is another's, who is waited for."""
    started = []

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is BaseProcess.start.__code__:
            started.append(frame)
            if len(started) == 2:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGTERM)

    sys.setprofile(interrupt)
    try:
        with pytest.raises(SystemExit) as left:
            run(Making(name="x", cache=tmp_path, repositories=repositories[:1], options=Options(jobs=2)))
    finally:
        sys.setprofile(None)
    assert left.value.code == 128 + signal.SIGTERM


def test_a_number_that_was_asked_for_is_met_or_the_numbers_that_can_be_had_are_told(
    tmp_path: Path, repositories: tuple[Path, Path]
) -> None:
    def make_of(quotas: Quotas) -> Path:
        options = Options(quotas=quotas, kinds=frozenset({"boundary", "equality"}))
        return run(Making(name="x", cache=tmp_path, repositories=repositories[:1], options=options))

    with pytest.raises(TooFewTasksError, match=r"and 500 train and 2 heldout are needed: of [0-9]+ bugs") as refusal:
        make_of(Quotas(train=500))
    told = re.search("ask for --train ([0-9]+) --heldout ([0-9]+)", str(refusal.value))
    assert told is not None
    assert not (tmp_path / "datasets" / "x" / "tasks.jsonl.gz").exists()
    assert (make_of(Quotas(*map(int, told.groups()))) / "tasks.jsonl.gz").exists()


def test_without_a_number_what_was_proved_is_kept_and_why_it_is_not_more_is_told(
    tmp_path: Path, repositories: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(Making(name="x", cache=tmp_path, repositories=repositories[:1]))

    train, heldout = (len(load_tasks(TaskSource(dataset=str(out), split=split), [])) for split in ("train", "heldout"))
    told = capsys.readouterr().out
    assert f"{train + heldout} tasks in {out}: " in told
    assert f"{train} train and {heldout} heldout rather than 60 train and 20 heldout: of " in told
    assert 6 <= train < 60
    assert heldout == max(2, train // 3)
