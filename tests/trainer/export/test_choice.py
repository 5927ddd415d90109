"""Which weights of a run are exported."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.export.choice import ExportError, RunWeights, read_config, scores_by_step


def solved(*shares: float) -> list[dict[str, Any]]:
    return [{"source": f"s{n}", "solved_fraction": share, "attempts": 4} for n, share in enumerate(shares)]


def weights_of(run: Path, make_spec: Any, **checkpoint: Any) -> RunWeights:
    return RunWeights(run, make_spec(checkpoint=checkpoint), None)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(
        steps: list[int], evaluations: Mapping[str, Any] | None = None, summary: Mapping[str, Any] | None = None
    ) -> Path:
        store = CheckpointStore(str(tmp_path / "checkpoints"))
        for step in steps:
            state = CheckpointState(step, "rl", step, {"evaluations": evaluations or {}})
            store.commit(store.begin(step), state, keep=10, best_first=())
        if summary:
            (tmp_path / "summary.json").write_text(json.dumps(summary))
        return tmp_path

    return make


EVALUATED = {
    "untrained": solved(0.9),
    "warmed-up": solved(0.1),
    "step-2": solved(0.6, 0.2),
    "step-4": solved(0.3, 0.5),
    "step-6": solved(0.9),
}
FINISHED = {"steps": 8, "evaluations": {**EVALUATED, "final": solved(0.2)}}


@pytest.mark.parametrize(
    ("steps", "summary", "best_by", "wanted", "chosen"),
    [
        pytest.param([2, 4, 8], FINISHED, None, {}, 8, id="the latest without any wish"),
        pytest.param([2, 4, 8], FINISHED, None, {"step": 2}, 2, id="a step"),
        pytest.param([2, 4, 6, 8], FINISHED, None, {"best": True}, 6, id="the best"),
        pytest.param([0, 8], FINISHED, None, {"best": True}, 8, id="the best of those that were kept"),
        pytest.param([2, 4], FINISHED, None, {"best": True}, 4, id="of equal ones the later"),
        pytest.param([2, 4], None, None, {"best": True}, 4, id="of a run under way"),
        pytest.param([2, 4], FINISHED, "s0", {"best": True}, 2, id="the best by the source that the config names"),
    ],
)
def test_the_checkpoint_that_was_asked_for(
    make_run: Callable[..., Path],
    make_spec: Any,
    steps: list[int],
    summary: Mapping[str, Any] | None,
    best_by: str | None,
    wanted: dict[str, Any],
    chosen: int,
) -> None:
    run = make_run(steps, EVALUATED, summary)
    found = weights_of(run, make_spec, bestBy=best_by).choose(**wanted)
    assert found.place == run / "checkpoints" / f"step-{chosen}"
    assert found.checkpoint == (str(run / "checkpoints"), f"step-{chosen}")
    assert f"step {chosen}" in found.description


@pytest.mark.parametrize(
    ("steps", "wanted", "says"),
    [
        pytest.param([2, 4], {"step": 3}, "no checkpoint of step 3; there are checkpoints of 2, 4", id="another step"),
        pytest.param([3], {"best": True}, "evaluated: 0, 2, 4, 6.*checkpoints of 3", id="what was evaluated is gone"),
        pytest.param([], {"best": True}, "it has no checkpoint", id="the best of nothing"),
        pytest.param([], {}, "holds neither a checkpoint nor weights", id="no run"),
    ],
)
def test_what_is_not_there_is_said(
    make_run: Callable[..., Path], make_spec: Any, steps: list[int], wanted: dict[str, Any], says: str
) -> None:
    with pytest.raises(ExportError, match=says):
        weights_of(make_run(steps, EVALUATED), make_spec).choose(**wanted)


def test_of_a_run_without_checkpoints_the_newest_whole_weights_are_taken(tmp_path: Path, make_spec: Any) -> None:
    for version, is_whole in ((0, True), (9, True), (10, True), (11, False)):
        (tmp_path / "weights" / str(version)).mkdir(parents=True)
        if is_whole:
            (tmp_path / "weights" / str(version) / COMPLETE).touch()
    found = weights_of(tmp_path, make_spec).choose()
    assert (found.place, found.checkpoint) == (tmp_path / "weights" / "10", None)


def test_a_step_that_was_saved_again_is_taken_as_it_was_saved_last(
    make_run: Callable[..., Path], make_spec: Any
) -> None:
    run = make_run([2])
    store = CheckpointStore(str(run / "checkpoints"))
    assert store.begin(2) == "step-2.1"
    (run / "checkpoints" / "step-2.1" / COMPLETE).touch()
    assert weights_of(run, make_spec).choose(step=2).place == run / "checkpoints" / "step-2.1"


def test_a_checkpoint_of_the_warm_up_is_to_go_on_with_and_no_result(
    make_run: Callable[..., Path], make_spec: Any
) -> None:
    run = make_run([2])
    store = CheckpointStore(str(run / "checkpoints"))
    (run / "checkpoints" / store.begin(7, in_warmup=True) / COMPLETE).touch()
    assert weights_of(run, make_spec).choose().place == run / "checkpoints" / "step-2"
    with pytest.raises(ExportError, match="no checkpoint of step 7; there are checkpoints of 2"):
        weights_of(run, make_spec).choose(step=7)


def test_checkpoints_elsewhere_must_be_named(make_run: Callable[..., Path], make_spec: Any) -> None:
    run = make_run([2])
    with pytest.raises(ExportError, match=r"lie below s3://bucket/runs.*name it by --checkpoints"):
        weights_of(run, make_spec, url="s3://bucket/runs")
    spec = make_spec(checkpoint={"url": "s3://bucket/runs"})
    assert RunWeights(run, spec, f"file://{run}/checkpoints").choose().description.startswith("step 2")


def test_a_directory_without_a_config_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"has no config.yaml.*kubectl get configmap"):
        read_config(tmp_path)


def test_sources_of_which_nothing_was_graded_have_no_say() -> None:
    assert scores_by_step({"step-2": [*solved(0.5), {"source": "t", "solved_fraction": 0.0, "attempts": 0}]}, None) == {
        2: 0.5
    }
    assert scores_by_step({"final": solved(0.5)}, None) == {}


@pytest.mark.parametrize("content", [b"", b"a: [", b"a: 1", b"\xff\xfe"], ids=["empty", "cut off", "other", "no text"])
def test_a_config_that_is_damaged_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(ExportError, match=r"config.yaml holds no config of a run: it is damaged"):
        read_config(tmp_path)
