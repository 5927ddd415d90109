"""What a run's figures look like where they are read: the file, TensorBoard, Weights & Biases."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.infrastructure import Logging, Wandb
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.metrics import Metrics

WARMUP_STEPS = 6


@pytest.fixture(autouse=True)
def _files_in_the_order_of_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads files by name, which within a second of one process ends in a count: its tenth comes first."""
    from tensorboard.summary.writer import event_file_writer

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def live(
    storage: Path,
    *rows: tuple[str, int, float],
    keep_rows: int = 0,
    step: int = 0,
    warmup_step: int = 0,
    **logging: Any,
) -> int:
    """One life of a run that writes (phase, step, loss); how many rows the file holds after it."""
    metrics = Metrics(storage, Logging(**logging), "uid", keep_rows=keep_rows, step=step, warmup_step=warmup_step)
    for phase, at, loss in rows:
        metrics.write(phase, at, {f"{phase}/loss": loss})
    metrics.close()
    return metrics.num_rows


def warmed_up(loss: float) -> list[tuple[str, int, float]]:
    return [("warmup", step, loss) for step in range(1, WARMUP_STEPS + 1)]


def shown(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag to (step, value), as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory)).Reload()
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_figures_of_lost_steps_are_nowhere_and_the_rest_is_whole(tmp_path: Path) -> None:
    """A checkpoint after step 2 of a run that died in step 4."""
    kept = [("evaluation", 0, 0.0), *warmed_up(0.5), ("evaluation", 0, 0.25), ("rl", 1, 1.0), ("rl", 2, 2.0)]
    live(tmp_path, *kept, ("rl", 3, 30.0))
    live(tmp_path, ("rl", 3, 3.0), ("evaluation", 3, 0.75), keep_rows=len(kept), step=2)

    rows = [json.loads(line) for line in (tmp_path / "metrics" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["phase"], row["step"], row[f"{row['phase']}/loss"]) for row in rows] == [
        *kept,
        ("rl", 3, 3.0),
        ("evaluation", 3, 0.75),
    ]
    tensorboard = tmp_path / "metrics" / "tensorboard"
    assert shown(tensorboard) == {
        "evaluation/loss": [(0, 0.0), (0, 0.25), (3, 0.75)],
        "rl/loss": [(1, 1.0), (2, 2.0), (3, 3.0)],
    }
    assert shown(tensorboard / "warmup") == {"warmup/loss": [(step, 0.5) for _, step, _ in warmed_up(0.5)]}


def test_a_warm_up_that_died_is_shown_once(tmp_path: Path) -> None:
    live(tmp_path, ("evaluation", 0, 0.0), *warmed_up(9.0)[:4])
    assert live(tmp_path, ("evaluation", 0, 0.5), *warmed_up(0.5)) == 1 + WARMUP_STEPS
    tensorboard = tmp_path / "metrics" / "tensorboard"
    assert shown(tensorboard) == {"evaluation/loss": [(0, 0.5)]}
    assert shown(tensorboard / "warmup") == {"warmup/loss": [(step, 0.5) for _, step, _ in warmed_up(0.5)]}


def test_a_warm_up_that_goes_on_is_shown_whole(tmp_path: Path) -> None:
    """A checkpoint after its third step, and a death after its fifth."""
    kept = [("evaluation", 0, 0.25), *warmed_up(0.5)[:3]]
    live(tmp_path, *kept, *warmed_up(9.0)[3:5])
    rows = live(tmp_path, *warmed_up(0.5)[3:], ("rl", 1, 1.0), keep_rows=len(kept), warmup_step=3)
    assert rows == 1 + WARMUP_STEPS + 1
    tensorboard = tmp_path / "metrics" / "tensorboard"
    assert shown(tensorboard) == {"evaluation/loss": [(0, 0.25)], "rl/loss": [(1, 1.0)]}
    assert shown(tensorboard / "warmup") == {"warmup/loss": [(step, 0.5) for _, step, _ in warmed_up(0.5)]}


def test_rows_are_never_taken_from_the_file_that_a_life_finds(tmp_path: Path) -> None:
    """It may be killed while it drops those of lost steps."""
    live(tmp_path, ("rl", 1, 1.0), ("rl", 2, 2.0), tensorboard=False)
    path = tmp_path / "metrics" / "metrics.jsonl"
    whole = path.read_text()
    with path.open() as found:
        assert live(tmp_path, tensorboard=False, keep_rows=1, step=1) == 1
        assert found.read() == whole


def test_a_half_line_or_one_that_is_no_text_is_in_no_ones_way(tmp_path: Path) -> None:
    live(tmp_path, ("rl", 1, 1.0), tensorboard=False)
    with (tmp_path / "metrics" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"phase": "rl", "ste\xff')
    assert live(tmp_path, ("rl", 2, 2.0), tensorboard=False, keep_rows=1, step=1) == 2


def test_tensorboard_is_left_out_on_request(tmp_path: Path) -> None:
    live(tmp_path, ("rl", 1, 1.0), tensorboard=False)
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["metrics.jsonl"]


WANDB = """
import json
from pathlib import Path

class Run:
    def __init__(self, arguments):
        self._log = Path(arguments["dir"]) / "wandb.jsonl"
        self._tell("init", {name: value for name, value in arguments.items() if name != "dir"})

    def _tell(self, call, told):
        with self._log.open("a") as log:
            log.write(json.dumps([call, told]) + "\\n")

    def log(self, figures):
        self._tell("log", figures)

    def finish(self):
        self._tell("finish", {})

def init(**arguments):
    return Run(arguments)
"""
"""The three calls that are made of the library, which is no part of the development environment."""


def test_weights_and_biases_gets_each_figure_in_a_run_that_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb.py").write_text(WANDB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    wandb = Wandb(project="swe", entity="team", secret="token")
    live(tmp_path, ("warmup", 1, 0.5), ("rl", 1, 1.0), wandb=wandb, tensorboard=False)
    live(tmp_path, ("rl", 2, 2.0), wandb=wandb, tensorboard=False, keep_rows=2, step=1)
    begun = ["init", {"project": "swe", "entity": "team", "id": "uid", "resume": "allow"}]
    told = [json.loads(line) for line in (tmp_path / "metrics" / "wandb.jsonl").read_text().splitlines()]
    assert told == [
        begun,
        ["log", {"warmup/loss": 0.5, "warmup_step": 1}],
        ["log", {"rl/loss": 1.0, "rl_step": 1}],
        ["finish", {}],
        begun,
        ["log", {"rl/loss": 2.0, "rl_step": 2}],
        ["finish", {}],
    ]


def test_a_missing_library_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb.py").write_text("raise ModuleNotFoundError('no wandb')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(UnsupportedError, match=r"logging\.wandb needs the library wandb.*leave logging\.wandb out"):
        live(tmp_path, wandb=Wandb(project="swe", secret="token"))
