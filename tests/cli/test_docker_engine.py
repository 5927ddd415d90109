"""A laptop with Docker: tasks that live in container images are checked, and trained on, without a cluster."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.prove.resume import make_data_set, run_document
from tests.sandbox.contract.host_image import import_host_image
from typer.testing import Result

from sweyard_api.workload import TaskSource
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_trainer.local import run_local
from sweyard_trainer.rollouts.reading import read_attempts

pytestmark = pytest.mark.docker


def engine(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Path]:
    """Tasks of a small package whose tree lies in an image of the engine."""
    datasets = [make_data_set(tmp_path)]
    sources = [TaskSource(dataset="gauge", split=split) for split in ("train", "heldout")]
    made = [task for source in sources for task in load_tasks(source, datasets)]
    (tree,) = {task.image.removeprefix("dir:") for task in made}
    container = engine("create", import_host_image(), "/bin/sh")
    engine("cp", f"{tree}/.", f"{container}:{made[0].working_directory}")
    image = engine("commit", container).removeprefix("sha256:")
    engine("rm", container)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f"{task.model_copy(update={'image': image}).model_dump_json()}\n" for task in made))
    yield file
    engine("rmi", image)


def left(*options: str) -> str:
    return engine("ps", "--quiet", "--filter=label=dev.sweyard.sandbox", *(options or ["--all"]))


def test_tasks_of_container_images_are_checked_in_the_engine(rows: Path, sweyard: Callable[..., Result]) -> None:
    result = sweyard("tasks", "check", rows, "--docker")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "10 of 10 tasks may be used"), result.stdout
    assert not left()


def test_a_run_without_a_cluster_trains_on_tasks_of_container_images(rows: Path, tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(json.dumps(run_document(1)))
    source = {"dataset": str(rows), "split": "train"}
    document["spec"] |= {"sandboxes": {"runtime": "docker"}, "tasks": {"train": source}, "evaluation": {}}
    run_local(document, tmp_path / "run", ())
    attempts = read_attempts(tmp_path / "run" / "rollouts" / "step-000001.parquet")
    assert len(attempts) == 4
    assert not {attempt.outcome for attempt in attempts} & {Outcome.ENV_INFRA, Outcome.EVAL_INFRA}
    assert not left()


def test_containers_end_with_their_holder_however_that_ended(rows: Path) -> None:
    """Its own end is awaited without a bound: a container that went on would hold the test for ever."""
    image = json.loads(rows.read_text().splitlines()[0])["image"]
    program = (
        "import asyncio, os, signal\n"
        "from sweyard_sandbox.runtimes.docker.runtime import DockerRuntime\n"
        "async def hold():\n"
        f"    sandbox = await DockerRuntime().acquire({image!r}, deadline_seconds=60)\n"
        "    await sandbox.run('sleep 3600 & true', timeout_seconds=60)\n"
        "    print(sandbox.id, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(hold())\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    container = killed.stdout.strip()
    assert engine("wait", container) == "0"
    assert not left("--filter=status=running")
    engine("rm", container)
