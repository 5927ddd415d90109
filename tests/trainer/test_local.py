"""What a run on this machine refuses before it begins, and what it leaves then."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import RUN_FILE
from sweyard_sandbox.custom_code import CustomCodeError
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.rows import DatasetError
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.local import CONFIG_FILE, OutputTakenError, run_local

BASE: dict[str, Any] = {
    "model": {"name": "/nowhere"},
    "tasks": {"train": {"dataset": "hub/set"}},
    "agent": {"type": "short"},
}


def refusal(output: Path, kind: type[SweyardError], datasets: Sequence[Path] = (), **spec: Any) -> str:
    with pytest.raises(kind) as refused:
        run_local({"metadata": {"name": "r"}, "spec": {**BASE, **spec}}, output, datasets)
    return str(refused.value)


def test_a_run_that_never_had_a_model_is_in_no_ones_way(tmp_path: Path) -> None:
    assert "'/nowhere'" in refusal(tmp_path / "run", UnsupportedError)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [CONFIG_FILE, RUN_FILE]
    assert "'/elsewhere'" in refusal(tmp_path / "run", UnsupportedError, model={"name": "/elsewhere"})


def test_what_lives_that_were_killed_left_of_a_model_goes(tmp_path: Path) -> None:
    for name in ("model", "model-int4"):
        (tmp_path / "run" / f"{name}.0123abcd.partial" / "blobs").mkdir(parents=True)
    adapters = {"trainer": {"lora": {"base": "int4", "sync": "adapter"}}, "inference": {"weights": "int4"}}
    assert "'/nowhere'" in refusal(tmp_path / "run", UnsupportedError, **adapters)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [CONFIG_FILE, RUN_FILE]


@pytest.mark.parametrize("part", ["model", "checkpoints", "rollouts"])
def test_another_config_is_refused_with_the_fields_that_differ(tmp_path: Path, part: str) -> None:
    refusal(tmp_path / "run", UnsupportedError, steps=6, seed=1)
    (tmp_path / "run" / part).mkdir()
    before = [(tmp_path / "run" / name).read_text() for name in (CONFIG_FILE, RUN_FILE)]
    told = refusal(tmp_path / "run", OutputTakenError, steps=99, seed=1)
    assert told.endswith("another config (steps was 6 and is 99): choose another --output, or remove it")
    told = refusal(tmp_path / "run", OutputTakenError, steps=99, seed=2, model={"name": "/a"}, reward={"solved": 2.0})
    assert told.count(" was ") == 3
    assert ", and 1 more)" in told
    assert [(tmp_path / "run" / name).read_text() for name in (CONFIG_FILE, RUN_FILE)] == before


@pytest.mark.parametrize("content", [b"", b"a: [", b"\xff\xfe"], ids=["empty", "cut off", "no text"])
def test_a_damaged_config_is_another_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / CONFIG_FILE).write_bytes(content)
    assert "another config: choose" in refusal(tmp_path / "run", OutputTakenError)


RECORDED = {
    "a file": ({"sft": {"datasets": ["./none.jsonl"]}}, "sft.datasets[0] is './none.jsonl': there is no such file"),
    "a run": ({"sft": {"rollouts": ["runs/none"]}}, "sft.rollouts[0] is 'runs/none': there is no such directory"),
}


@pytest.mark.parametrize(("spec", "says"), RECORDED.values(), ids=RECORDED)
def test_trajectories_that_are_not_there_are_missed_before_a_model_is_fetched(
    tmp_path: Path, spec: dict[str, Any], says: str
) -> None:
    assert says in refusal(tmp_path / "run", UnsupportedError, mode="sft", **spec)
    assert not (tmp_path / "run").exists()


def test_demonstrations_that_are_not_there_are_missed_too(tmp_path: Path) -> None:
    warmup = {"steps": 1, "demonstrations": "dataset", "dataset": "none.jsonl"}
    assert "warmup.dataset is 'none.jsonl'" in refusal(tmp_path / "run", UnsupportedError, warmup=warmup)


def test_tasks_that_are_not_there_are_missed_too(tmp_path: Path) -> None:
    assert "dataset 'set' is not in" in refusal(tmp_path / "run", DatasetError, tasks={"train": {"dataset": "set"}})
    evaluated = {"train": {"dataset": "no-matter"}, "eval": [{"dataset": "./held"}]}
    assert "'./held': no such file" in refusal(tmp_path / "run", DatasetError, mode="eval", tasks=evaluated)
    imitated = {"steps": 1, "tasks": {"dataset": "scripts"}}
    assert "dataset 'scripts' is not in" in refusal(tmp_path / "run", DatasetError, warmup=imitated)


def test_code_that_cannot_be_used_is_missed_before_a_model_is_fetched_and_without_pytorch(tmp_path: Path) -> None:
    assert "has no nothing" in refusal(tmp_path / "run", CustomCodeError, reward={"function": "math:nothing"})
    command = "import sys, sweyard_trainer.local; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", command], check=True)
