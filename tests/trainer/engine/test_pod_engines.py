"""Engines in the trainer's pods, as processes: which there are, what they see, and that none outlives the pod."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.pod_engines import engine_variables, pod_engines

IDLE = ("-m", "tests.trainer.engine.idle_server")


def run(**inference: Any) -> TrainingRunSpec:
    """Four ranks a pod, and engines on two of their GPUs each."""
    trainer = {"processesPerReplica": 4, "device": "cuda"}
    placed = {"placement": "colocated", "replicas": 2, "tensorParallel": 2, "engine": "vllm"}
    return resolve(
        {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "trainer": trainer, "inference": placed | inference}
    )


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        pytest.param({}, ["0,1", "2,3"], id="a pod of its own"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, ["4,5", "6,7"], id="some GPUs of a machine"),
    ],
)
def test_engines_divide_the_gpus_that_the_trainer_may_use(visible: dict[str, str], seen: list[str]) -> None:
    each = [engine_variables(run(), number, {"PATH": "/bin", **visible}) for number in range(2)]
    assert [variables["CUDA_VISIBLE_DEVICES"] for variables in each] == seen
    assert all(variables["PATH"] == "/bin" and variables["VLLM_SERVER_DEV_MODE"] == "1" for variables in each)


def test_they_are_told_none_of_the_trainers_secrets() -> None:
    secrets = {name: "secret" for name in ("HF_TOKEN", "WANDB_API_KEY", "SWEYARD_ENGINE_API_KEY")}
    assert "secret" not in engine_variables(run(), 0, {"PATH": "/bin", **secrets}).values()


def test_they_run_until_the_pod_is_done_and_one_that_ended_is_known(tmp_path: Path) -> None:
    with pod_engines(run(), Path("/m"), {**os.environ, "REPORT": str(tmp_path)}, start=IDLE) as all_run:
        while len(reports := list(tmp_path.iterdir())) < 2 or not all(path.read_text() for path in reports):
            time.sleep(0.01)
        told = [json.loads(path.read_text()) for path in reports]
        assert all_run()
        ports = {one["arguments"][one["arguments"].index("--port") + 1]: one["gpus"] for one in told}
        assert ports == {"8000": "0,1", "8001": "2,3"}
        os.kill(told[0]["pid"], 9)
        while all_run():
            time.sleep(0.01)
    assert not any(Path(f"/proc/{one['pid']}").exists() for one in told)


def test_other_placements_start_nothing_here(tmp_path: Path) -> None:
    elsewhere = run(placement="separate", tensorParallel=1)
    with pod_engines(elsewhere, Path("/m"), {**os.environ, "REPORT": str(tmp_path)}, start=IDLE) as all_run:
        assert all_run()
    assert list(tmp_path.iterdir()) == []
