"""A real run in a process of its own, killed or stopped in mid-step, ends as if undisturbed."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.prove.resume import Killable, differences, make_data_set, moments, run_document

STEPS = 4


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return run_document(STEPS)


def runnable(document: dict[str, Any], datasets: Path, output: Path) -> Killable:
    file = output.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(document))
    return Killable(file, datasets, output)


def test_a_run_killed_and_stopped_at_random_moments_goes_on_bit_for_bit(
    document: dict[str, Any], datasets: Path, tmp_path: Path
) -> None:
    unbroken = runnable(document, datasets, tmp_path / "unbroken")
    broken = runnable(document, datasets, tmp_path / "broken")
    unbroken.finish()
    step_seconds = unbroken.step_seconds()

    assert broken.end_at(-1, step_seconds, signal.SIGTERM) == 143, broken.last_words()
    assert "error: stopped in the warm-up after step" in broken.last_words()
    for moment, number, code in zip(moments(1, 3, STEPS)[1:], (signal.SIGKILL, signal.SIGTERM), (-9, 143), strict=True):
        assert broken.end_at(moment, step_seconds, number) == code, broken.last_words()
        assert not (broken.output / "summary.json").exists()
    assert broken.finish()["steps"] == STEPS
    assert differences(broken, unbroken) == []
    assert [row["step"] for row in broken.metrics() if row["phase"] == "rl"] == list(range(1, STEPS + 1))

    # A step that is trained again, from what was recorded alone, comes to what the run came to.
    replay = [sys.executable, "-m", "sweyard_cli", "rollouts", "replay", str(broken.output), "--step", str(STEPS)]
    told = subprocess.run(replay, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.splitlines()[0] == f"step {STEPS} trained again from the checkpoint of step {STEPS - 1}"
    assert told.stdout.splitlines()[-2:] == [f"{what}: the same, bit for bit" for what in ("figures", "weights")]

    # Of what is there, nothing is taken for a part of another run.
    other = {**document, "spec": {**document["spec"], "steps": 99}}
    broken.document.write_text(yaml.safe_dump(other))
    assert broken.start().wait() == 2
    assert "holds a run with another config" in broken.last_words().splitlines()[-1]


def test_an_overlapped_run_killed_and_stopped_in_mid_step_loses_and_doubles_no_task(
    document: dict[str, Any], datasets: Path, tmp_path: Path
) -> None:
    spec = document["spec"] | {"sandboxes": {"replicas": 4}}
    spec |= {"rollout": spec["rollout"] | {"maxStaleness": 2, "maxConcurrent": 4}}
    run = runnable({**document, "spec": spec}, datasets, tmp_path / "run")
    assert run.end_at(1.0, 0.0, signal.SIGKILL) == -9, run.last_words()
    assert run.end_at(2.0, 0.0, signal.SIGTERM) == 143, run.last_words()
    assert run.finish()["steps"] == STEPS

    attempts = [attempt_id for attempts in run.attempts().values() for attempt_id, _ in attempts]
    assert len(set(attempts)) == len(attempts) == STEPS * 4
    assert len({attempt_id.split("/")[1] for attempt_id in attempts}) == 8, "each task of the first epoch once"
    staleness = [row["rollout/staleness_max"] for row in run.metrics() if row["phase"] == "rl"]
    assert 0 < max(staleness) <= 2


def test_a_data_set_that_is_not_there_is_the_users_fault(document: dict[str, Any], tmp_path: Path) -> None:
    run = runnable(document, tmp_path, tmp_path / "run")
    assert run.start().wait() == 2
    assert run.last_words().splitlines()[-1].startswith("error: dataset 'gauge' is not in")


def test_two_worker_processes_share_the_attempts_of_a_step(
    document: dict[str, Any], datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # another cluster of the machine's user, which is none of ours
    spec = document["spec"] | {"steps": 1, "sandboxes": {"replicas": 4}, "warmup": {"steps": 1, "batchSize": 8}}
    spec |= {"rollout": spec["rollout"] | {"workers": 2, "maxConcurrent": 4}, "tasks": spec["tasks"] | {"eval": []}}
    run = runnable({**document, "spec": spec}, datasets, tmp_path / "run")
    assert run.finish()["steps"] == 1
    (attempts,) = run.attempts().values()
    assert len({attempt_id for attempt_id, _ in attempts}) == 4
    assert all(tokens for _, tokens in attempts)
