"""A real run in a process of its own, killed or stopped in mid-step, ends as if undisturbed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_sandbox.tasks.command import parser, run
from sweyard_trainer.rollout.record import read_attempts

STEPS = 4
DEADLINE_SECONDS = 400.0
FUNCTION = (
    "def pick{0}(items, limit):\n    if items == [] and limit < {0}:\n        return None\n    return limit + {0}\n"
)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("datasets")
    repository = root / "gauge"
    (repository / "gauge").mkdir(parents=True)
    (repository / "tests").mkdir()
    (repository / "gauge" / "__init__.py").write_text("")
    (repository / "gauge" / "core.py").write_text("\n\n".join(FUNCTION.format(n) for n in range(3, 9)))
    cases = "".join(
        f"    def test_{n}(self):\n"
        f"        self.assertEqual((pick{n}([], 0), pick{n}([1], 0), pick{n}([], {n})), (None, {n}, {2 * n}))\n\n"
        for n in range(3, 9)
    )
    head = "import unittest\n\nfrom gauge.core import *\n\n\nclass CoreTest(unittest.TestCase):\n"
    (repository / "tests" / "test_core.py").write_text(head + cases)
    (repository / "pyproject.toml").write_text('[project]\nname = "gauge"\nlicense = "MIT"\n')
    arguments = ["--name", "gauge", "--train", "8", "--heldout", "2", "--repo", str(repository)]
    return run(
        parser({}).parse_args([*arguments, "--cache", str(root / "cache"), "--out", str(root / "out" / "gauge")])
    ).parent


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One attempt at a time: then even the sampled tokens do not depend on timing."""
    spec: dict[str, Any] = {
        "preset": "tiny",
        "steps": STEPS,
        "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
        "tasks": {
            "train": {"dataset": "gauge", "split": "train"},
            "eval": [{"dataset": "gauge", "split": "heldout", "name": "heldout"}],
        },
        "rollout": {"groupsPerStep": 2, "groupSize": 2, "maxConcurrent": 1, "maxTokensPerTurn": 24},
        "sandboxes": {"replicas": 1},
        "warmup": {"steps": 20, "batchSize": 8},
        "reward": {"verifyTasks": False},
        "checkpoint": {"everySteps": 1},
    }
    path = tmp_path_factory.mktemp("document") / "run.yaml"
    path.write_text(yaml.safe_dump({"metadata": {"name": "killed"}, "spec": spec}))
    return path


def start(document: Path, datasets: Path, output: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "sweyard_trainer.local", "-f", str(document), "--output", str(output)]
    log = output.with_suffix(".log").open("ab")
    with log:
        return subprocess.Popen([*command, "--datasets", str(datasets)], stdout=log, stderr=log)


def finish(process: "subprocess.Popen[bytes]", output: Path) -> dict[str, Any]:
    assert process.wait(DEADLINE_SECONDS) == 0, output.with_suffix(".log").read_text()[-3_000:]
    summary: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return summary


def wait_for(path: Path, process: "subprocess.Popen[bytes]", output: Path) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        assert process.poll() is None, output.with_suffix(".log").read_text()[-3_000:]
        assert time.monotonic() < give_up_at, f"{path} did not appear"
        time.sleep(0.02)


def attempts_by_step(output: Path) -> dict[str, list[tuple[str, list[int]]]]:
    """Attempt ids and sampled tokens of each step."""
    return {
        path.stem: [
            (attempt.attempt_id, [token for segment in attempt.segments for token in segment.token_ids.tolist()])
            for attempt in read_attempts(path)
        ]
        for path in sorted((output / "rollouts").glob("step-*.jsonl"))
    }


def final_weights(output: Path, summary: dict[str, Any]) -> bytes:
    (file,) = (output / "weights" / str(summary["weight_version"])).glob("*.safetensors")
    return file.read_bytes()


def test_a_run_killed_and_stopped_in_mid_step_goes_on_bit_for_bit(
    document: Path, datasets: Path, tmp_path: Path
) -> None:
    undisturbed, output = tmp_path / "undisturbed", tmp_path / "run"
    reference = finish(start(document, datasets, undisturbed), undisturbed)

    for step, number, exit_code in ((2, signal.SIGKILL, -9), (3, signal.SIGTERM, 143)):
        process = start(document, datasets, output)
        wait_for(output / "rollouts" / f"step-00000{step}.jsonl", process, output)
        os.kill(process.pid, number)
        assert process.wait(DEADLINE_SECONDS) == exit_code
        assert not (output / "summary.json").exists()
    summary = finish(start(document, datasets, output), output)

    assert summary["steps"] == STEPS
    assert attempts_by_step(output) == attempts_by_step(undisturbed)
    assert final_weights(output, summary) == final_weights(undisturbed, reference)
    rows = [json.loads(line) for line in (output / "metrics" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["phase"] == "rl"] == list(range(1, STEPS + 1))

    # Of what is there, nothing is taken for a part of another run.
    other = yaml.safe_load(document.read_text())
    other["spec"]["steps"] = 99
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    assert start(tmp_path / "other.yaml", datasets, output).wait(DEADLINE_SECONDS) == 2
    assert "holds a run with another config" in output.with_suffix(".log").read_text().splitlines()[-1]


def test_a_data_set_that_is_not_there_is_the_users_fault(document: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert start(document, tmp_path, output).wait(DEADLINE_SECONDS) == 2
    last = output.with_suffix(".log").read_text().splitlines()[-1]
    assert last.startswith("error: dataset 'gauge' is not in")


def test_two_worker_processes_share_the_attempts_of_a_step(document: Path, datasets: Path, tmp_path: Path) -> None:
    spread = yaml.safe_load(document.read_text())
    spread["spec"] |= {"steps": 1, "sandboxes": {"replicas": 4}, "warmup": {"steps": 1, "batchSize": 8}}
    spread["spec"]["tasks"]["eval"] = []
    spread["spec"]["rollout"] |= {"workers": 2, "maxConcurrent": 4}
    path, output = tmp_path / "spread.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(spread))
    summary = finish(start(path, datasets, output), output)
    assert summary["steps"] == 1
    (attempts,) = attempts_by_step(output).values()
    assert len({attempt_id for attempt_id, _ in attempts}) == 4
    assert all(tokens for _, tokens in attempts)
