"""A real run in a process of its own, killed or stopped in mid-step, ends as if undisturbed."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.prove.killable import SILENT_SECONDS, Killable, differences, moments, start_interpreter
from benchmarks.prove.resume import make_data_set, run_document
from tests.warm_interpreter import WarmInterpreter

STEPS = 3

RunMaker = Callable[..., Killable]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return run_document(STEPS)


@pytest.fixture
def runnable(datasets: Path, tmp_path: Path, warm_interpreter: WarmInterpreter) -> RunMaker:
    def make(document: dict[str, Any], name: str = "run") -> Killable:
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        return Killable(file, datasets, tmp_path / name, warm_interpreter.start)

    return make


def test_a_run_killed_and_stopped_at_random_moments_goes_on_bit_for_bit(
    document: dict[str, Any], runnable: RunMaker, warm_interpreter: WarmInterpreter, tmp_path: Path
) -> None:
    unbroken, broken = runnable(document, "unbroken"), runnable(document, "broken")
    unbroken.finish()

    assert broken.end_at(-1, signal.SIGTERM) == 143, broken.last_words()
    assert "error: stopped in the warm-up after step" in broken.last_words()
    for moment, number, code in zip(moments(1, 3, STEPS)[1:], (signal.SIGKILL, signal.SIGTERM), (-9, 143), strict=True):
        assert broken.end_at(moment, number) == code, broken.last_words()
        assert not (broken.output / "summary.json").exists()
    assert broken.finish()["steps"] == STEPS
    assert differences(broken, unbroken) == []
    assert [row["step"] for row in broken.metrics() if row["phase"] == "rl"] == list(range(1, STEPS + 1))

    # A step that is trained again, from what was recorded alone, comes to what the run came to.
    arguments, log = ["rollouts", "replay", str(broken.output), "--step", str(STEPS)], tmp_path / "replay.log"
    replay = warm_interpreter.start("sweyard_cli", arguments, log)
    assert replay.wait(SILENT_SECONDS) == 0, log.read_text()
    told = log.read_text().splitlines()
    assert f"step {STEPS} trained again from the checkpoint of step {STEPS - 1}" in told
    assert told[-2:] == [f"{what}: the same, bit for bit" for what in ("figures", "weights")]

    # Of what is there, nothing is taken for a part of another run.
    other = {**document, "spec": {**document["spec"], "steps": 99}}
    broken.document.write_text(yaml.safe_dump(other))
    assert broken.start().wait(SILENT_SECONDS) == 2
    assert "holds a run with another config" in broken.last_words().splitlines()[-1]


def test_an_overlapped_run_killed_and_stopped_in_mid_step_loses_and_doubles_no_task(
    document: dict[str, Any], runnable: RunMaker
) -> None:
    spec = document["spec"] | {"sandboxes": {"replicas": 4}}
    spec |= {"rollout": spec["rollout"] | {"maxStaleness": 2, "maxConcurrent": 4}}
    run = runnable({**document, "spec": spec})
    assert run.end_at(1.0, signal.SIGKILL) == -9, run.last_words()
    assert run.end_at(2.0, signal.SIGTERM) == 143, run.last_words()
    assert run.finish()["steps"] == STEPS

    attempts = [attempt_id for attempts in run.attempts().values() for attempt_id, _ in attempts]
    assert len(set(attempts)) == len(attempts) == STEPS * 4
    assert len({attempt_id.split("/")[1] for attempt_id in attempts}) == STEPS * 2, "no task twice in an epoch"
    staleness = [row["rollout/staleness_max"] for row in run.metrics() if row["phase"] == "rl"]
    assert 0 < max(staleness) <= 2


def test_a_data_set_that_is_not_there_is_the_users_fault(
    document: dict[str, Any], runnable: RunMaker, tmp_path: Path
) -> None:
    run = replace(runnable(document), datasets=tmp_path)
    assert run.start().wait(SILENT_SECONDS) == 2
    assert run.last_words().splitlines()[-1].startswith("error: dataset 'gauge' is not in")


def test_two_worker_processes_share_the_attempts_of_a_step(
    document: dict[str, Any], runnable: RunMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # another cluster of the machine's user, which is none of ours
    spec = document["spec"] | {"steps": 1, "sandboxes": {"replicas": 4}, "warmup": {"steps": 1, "batchSize": 8}}
    spec |= {"rollout": spec["rollout"] | {"workers": 2, "maxConcurrent": 4}, "tasks": spec["tasks"] | {"eval": []}}
    del spec["evaluation"]
    run = replace(runnable({**document, "spec": spec}), start_life=start_interpreter)
    assert run.finish()["steps"] == 1
    (attempts,) = run.attempts().values()
    assert len({attempt_id for attempt_id, _ in attempts}) == 4
    assert all(tokens for _, tokens in attempts)
