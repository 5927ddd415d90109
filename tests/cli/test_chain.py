"""From recorded trajectories to a measured model: `sweyard run` (mode sft), `sweyard export`, `sweyard eval`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.prove.resume import make_data_set
from safetensors.torch import load_file

from sweyard_api.workload import Agent, TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.trajectory import Trajectory

STEPS = 40
AGENT = {"type": "short"}


def sweyard(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sweyard_cli", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record_trajectories(datasets: Path, file: Path) -> None:
    """What a solver wrote on the training tasks, in the common chat format."""
    agent = make_agent(Agent.model_validate(AGENT))
    tasks = load_tasks(TaskSource(dataset="gauge", split="train"), [datasets])
    scripts = [agent.scripted(task, correct=True, seed=seed) for task in tasks for seed in range(4)]
    rows = [{"messages": [{"role": one.role, "content": one.content} for one in script]} for script in scripts]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def document(trajectories: Path) -> dict[str, Any]:
    """One attempt at a time, so that the same weights sample the same tokens."""
    spec = {
        "mode": "sft",
        "steps": STEPS,
        "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
        "tasks": {
            "train": {"dataset": "gauge", "split": "train"},
            "eval": [{"dataset": "gauge", "split": "heldout", "name": "heldout"}],
        },
        "agent": {**AGENT, "maxTurns": 2},
        "sft": {"datasets": [str(trajectories)], "batchSize": 8},
        "optimizer": {"learningRate": 1e-3},
        "rollout": {"maxConcurrent": 1, "maxPromptTokens": 512, "maxResponseTokens": 128, "maxTokensPerTurn": 48},
        "reward": {"verifyTasks": False},
        "trainer": {"device": "cpu", "dtype": "float32"},
        "evaluation": {"atStart": False, "everySteps": 0},
        "logging": {"tensorboard": False},
    }
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "taught"}, "spec": spec}


def final_attempts(run: Path) -> list[Trajectory]:
    attempts = read_attempts(run / "rollouts" / "eval-final-heldout.parquet")
    return sorted(attempts, key=lambda attempt: attempt.attempt_id)


def final_report(run: Path) -> dict[str, Any]:
    (report,) = json.loads((run / "summary.json").read_text())["evaluations"]["final"]
    return dict(report)


@pytest.mark.slow
def test_the_model_that_was_taught_is_the_one_that_is_exported_and_measured(tmp_path: Path) -> None:
    datasets = make_data_set(tmp_path)
    record_trajectories(datasets, tmp_path / "chats.jsonl")
    file = tmp_path / "trainingrun.yaml"
    file.write_text(json.dumps(document(tmp_path / "chats.jsonl")))
    run, exported, evaluated = (tmp_path / name for name in ("run", "exported", "evaluated"))
    here = ("--datasets", datasets, "--allow-unisolated")

    sweyard("run", "-f", file, "--output", run, *here)
    rows = [json.loads(line) for line in (run / "metrics" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["train/loss"] for row in rows if row["phase"] == "sft"]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] / 2

    assert f"eval -f FILE --weights {exported}" in sweyard("export", run, "--to", exported).replace("\n", "")
    taught, initial = (load_file(path / "model.safetensors") for path in (exported, run / "model"))
    assert any(not taught[name].equal(initial[name]) for name in initial)

    sweyard("eval", "-f", file, "--weights", exported, "--output", evaluated, *here)
    ours, theirs = final_attempts(evaluated), final_attempts(run)
    assert len(ours) == 2
    for one, other in zip(ours, theirs, strict=True):
        assert (one.attempt_id, one.outcome, one.patch) == (other.attempt_id, other.outcome, other.patch)
        tokens, logprobs = ([getattr(segment, name) for segment in one.segments] for name in ("token_ids", "logprobs"))
        assert [each.tolist() for each in tokens] == [segment.token_ids.tolist() for segment in other.segments]
        assert [each.tolist() for each in logprobs] == [segment.logprobs.tolist() for segment in other.segments]
    assert final_report(evaluated)["solved_fraction"] == final_report(run)["solved_fraction"]
    assert len((evaluated / "predictions" / "final-heldout.jsonl").read_text().splitlines()) == 2
