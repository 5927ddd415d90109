"""Directories as runs leave them, finished or not, and the command line under test."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sweyard_api.resolve import dump_config, resolve
from sweyard_cli.main import app
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.rollouts.surrogates import escape

TINY = {
    "preset": "tiny",
    "tasks": {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny", "split": "heldout", "name": "heldout"}]},
}
DOCUMENT = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "tiny"}, "spec": TINY}

Json = dict[str, Any]


@pytest.fixture
def sweyard() -> Callable[..., Any]:
    """Run the command line; its result."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """A valid TrainingRun."""
    file = tmp_path / "trainingrun.yaml"
    file.write_text(json.dumps(DOCUMENT))
    return file


def attempt(task: str = "t1", outcome: str = "solved", label: str = "step-1", index: int = 0, **fields: Any) -> Json:
    """One attempt as a row of a rollout file holds it: two tokens of a prompt, three of a reply."""
    segment = {
        "token_ids": [11, 12, 13, 14, 15],
        "loss_mask": [False, False, True, True, True],
        "logprobs": [0.0, 0.0, -0.5, -1.5, -2.5],
        "weight_versions": [-1, -1, 7, 7, 7],
        "routed_experts": None,
    }
    row = {
        "attempt_id": f"{label}/{task}/{index}",
        "task_id": task,
        "group_id": f"{label}/{task}",
        "segments": [segment],
        "num_tokens": 5,
        "num_sampled_tokens": 3,
        "temperature": 1.0,
        "batch_group": None,
        "batch_index": None,
        "outcome": outcome,
        "reward": float(outcome == "solved"),
        "official": outcome == "solved",
        "transcript": [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": f"as {outcome}"}],
        "patch": "",
        "grading_log": "test_one passed",
        "infra_reason": "",
        "timings": {"total": 1.5},
        **fields,
    }
    return {**row, "num_turns": sum(message["role"] == "assistant" for message in row["transcript"])}


def write_attempts(path: Path, rows: Sequence[Json]) -> None:
    """A sealed rollout file, whatever a model may have put into its text."""
    pq.write_table(pa.Table.from_pylist([_storable(row) for row in rows], SCHEMA), path)


def _storable(value: Any) -> Any:
    match value:
        case str():
            return escape(value)
        case list():
            return [_storable(each) for each in value]
        case dict():
            return {name: _storable(each) for name, each in value.items()}
    return value


def evaluation_row(step: int, solved_fraction: float, source: str = "heldout", attempts: int = 4) -> Json:
    """A row of metrics.jsonl."""
    figures = {
        "solved_fraction": solved_fraction,
        "low": min(0.1, solved_fraction),
        "high": 0.9,
        "attempts": attempts,
        "infra_failures": 0.0,
    }
    named = {f"eval/{source}/{name}": value for name, value in figures.items()}
    return {"phase": "evaluation", "step": step, **named}


def step_row(step: int, reward: float) -> Json:
    """A row of metrics.jsonl."""
    figures = {"rollout/reward_mean": reward, "train/loss": 0.1 * step, "time/step_seconds": 9.0 + step}
    return {"phase": "rl", "step": step, **figures}


ROWS = (
    evaluation_row(0, 0.0),
    *({"phase": "warmup", "step": step, "warmup/loss": 6.0 / step} for step in (1, 2)),
    evaluation_row(0, 0.25),
    step_row(1, 0.25),
    step_row(2, 0.75),
    evaluation_row(2, 0.5),
)
ATTEMPTS: Mapping[str, Sequence[Json]] = {
    "eval-untrained-heldout": [attempt("h1", "truncated"), attempt("h2", "unsolved")],
    "eval-warmed-up-heldout": [attempt("h1", "solved"), attempt("h2", "unsolved")],
    "step-000001": [attempt("t1", "unsolved"), attempt("t1", "solved", index=1), attempt("t2", "max_turns")],
    "step-000002": [attempt("t3", "solved"), attempt("t3", "env_infra", index=1)],
    "eval-final-heldout": [attempt("h1", "solved"), attempt("h2", "solved")],
}
PROGRESS = {"phase": "finished", "step": 2, "totalSteps": 2, "message": "finished"}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run's directory; by default of a run of two steps that finished but wrote no summary."""

    def make(
        *,
        rows: Sequence[Json] = ROWS,
        attempts: Mapping[str, Sequence[Json]] = ATTEMPTS,
        progress: Json | None = PROGRESS,
        summary: Json | None = None,
    ) -> Path:
        run = tmp_path / "run"
        (run / "metrics").mkdir(parents=True)
        (run / "rollouts").mkdir()
        (run / "config.yaml").write_text(dump_config(resolve(TINY)))
        (run / "metrics" / "metrics.jsonl").write_text(json_lines(rows))
        for name, lines in attempts.items():
            write_attempts(run / "rollouts" / f"{name}.parquet", lines)
        for name, value in (("progress", progress), ("summary", summary)):
            if value is not None:
                (run / f"{name}.json").write_text(json.dumps(value))
        return run

    return make


def json_lines(rows: Sequence[Json]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
