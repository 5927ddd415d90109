"""What is exported is the policy that was trained: plain transformers computes the same logits."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweyard_api.resolve import dump_config
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.export.choice import ExportError, RunWeights, read_config
from sweyard_trainer.export.write import export_weights
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.trajectory import Segment

LORA = {"lora": {"rank": 4, "alpha": 8, "targetModules": ["q_proj", "down_proj"]}}


async def train(spec: TrainingRunSpec, run: Path, segments: Sequence[Segment]) -> Path:
    """Two steps and a checkpoint, the second step's weights as engines get them, and one step more."""
    (run / "config.yaml").write_text(dump_config(spec))
    learner = make_learner(spec, run, num_threads=1)
    await learner.start()
    try:
        for _ in range(2):
            await learner.sft_step(segments)
        await learner.save_checkpoint(2, {})
        await learner.settle_checkpoint()
        weights = await learner.save_weights(2)
        await learner.sft_step(segments)
    finally:
        await learner.stop()
    return weights


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(input_ids=torch.arange(6, 60)[None]).logits
    assert isinstance(found, torch.Tensor)
    return found


def logits_of(directory: Path) -> torch.Tensor:
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return logits(model)


@pytest.fixture
def segments(make_segment: Callable[..., Segment]) -> list[Segment]:
    return [make_segment(30, seed) for seed in range(4)]


@pytest.mark.parametrize("model", ["storage", "tied_storage"])
async def test_a_checkpoint_becomes_a_directory_that_transformers_loads(
    request: pytest.FixtureRequest, make_spec: Any, segments: list[Segment], tmp_path: Path, model: str
) -> None:
    run = request.getfixturevalue(model)
    trained = await train(make_spec(mode="sft"), run, segments)
    target = tmp_path / "exported"
    await in_a_thread(run, target)
    assert torch.equal(logits_of(target), logits_of(trained))
    assert not torch.allclose(logits_of(target), logits_of(run / "model"))
    text = "for index in range(10):"
    assert AutoTokenizer.from_pretrained(target)(text) == AutoTokenizer.from_pretrained(run / "model")(text)
    assert not (target / COMPLETE).exists()


async def test_of_adapters_either_they_alone_or_the_whole_model_is_written(
    make_spec: Any, segments: list[Segment], storage: Path, tmp_path: Path
) -> None:
    trained = await train(make_spec(mode="sft", trainer=LORA), storage, segments)
    alone, merged = tmp_path / "alone", tmp_path / "merged"
    await in_a_thread(storage, alone)
    await in_a_thread(storage, merged, merge=True)
    assert torch.equal(logits_of(merged), logits_of(trained))
    assert not (alone / "model.safetensors").exists()
    base = AutoModelForCausalLM.from_pretrained(storage / "model")
    with_adapter = PeftModel.from_pretrained(base, alone)
    assert with_adapter.peft_config["default"].base_model_name_or_path == str((storage / "model").absolute())
    assert torch.allclose(logits(with_adapter), logits_of(trained), atol=1e-5)
    assert AutoTokenizer.from_pretrained(alone).chat_template


async def test_weights_that_engines_got_are_taken_as_they_are(
    make_spec: Any, segments: list[Segment], storage: Path, tmp_path: Path
) -> None:
    trained = await train(make_spec(mode="sft"), storage, segments)
    (storage / "checkpoints" / "step-2" / COMPLETE).unlink()
    await in_a_thread(storage, tmp_path / "exported")
    assert torch.equal(logits_of(tmp_path / "exported"), logits_of(trained))


async def in_a_thread(run: Path, target: Path, *, merge: bool = False) -> None:
    """As the command does it, which has no event loop."""
    await asyncio.to_thread(export, run, target, merge=merge)


def export(run: Path, target: Path, *, merge: bool = False) -> None:
    spec = read_config(run)
    export_weights(run, spec, RunWeights(run, spec, None).choose(), target, merge=merge)


@pytest.mark.parametrize(
    ("exists", "merge", "error", "says"),
    [
        pytest.param(True, False, FileExistsError, "nothing is overwritten", id="something is there"),
        pytest.param(False, True, ExportError, "nothing to merge", id="no adapters"),
    ],
)
def test_what_cannot_be_written_is_said_and_leaves_nothing(
    make_spec: Any,
    storage: Path,
    tmp_path: Path,
    exists: bool,
    merge: bool,
    error: type[Exception],
    says: str,
) -> None:
    (storage / "weights" / "1").mkdir(parents=True)
    (storage / "weights" / "1" / COMPLETE).touch()
    (storage / "config.yaml").write_text(dump_config(make_spec()))
    place = tmp_path / "place"
    place.mkdir()
    if exists:
        (place / "exported").mkdir()
    with pytest.raises(error, match=says):
        export(storage, place / "exported", merge=merge)
    assert list(place.iterdir()) == ([place / "exported"] if exists else [])
