"""A policy small enough to train in milliseconds, and what to train it on."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.vllm_server import running_vllm
from tests.warm_interpreter import WarmInterpreter

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.trajectory import Segment, Trajectory
from sweyard_trainer.waiting_threads import let_threads_sleep

let_threads_sleep(os.environ)  # before any test imports PyTorch

TEXTS = ["def add(left, right):\n    return left + right\n", "for index in range(10):\n    print(index)\n"] * 3

SpecMaker = Callable[..., TrainingRunSpec]
SegmentMaker = Callable[..., Segment]
TrajectoryMaker = Callable[..., Trajectory]


@pytest.fixture
def make_spec() -> SpecMaker:
    """Sections by keyword, over a config that trains a tiny scratch model on the CPU in float32."""

    def make(**sections: Any) -> TrainingRunSpec:
        document: dict[str, Any] = {
            "steps": 10,
            "model": {"scratch": {"layers": 2, "hiddenSize": 128, "vocabularySize": 320}},
            "tasks": {"train": {"dataset": "tasks"}},
            "optimizer": {"learningRate": 1e-3},
            "rollout": {"maxStaleness": 64},  # tests train on the same trajectories again and again
        }
        trainer = {"device": "cpu", "dtype": "float32", "tokensPerMicrobatch": 512}
        document |= sections
        document["trainer"] = trainer | sections.get("trainer", {})
        return TrainingRunSpec.model_validate(document)

    return make


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage directory with `model/` prepared. Never written to."""
    from sweyard_api.workload import ScratchModel
    from sweyard_trainer.model.scratch import make_scratch_model
    from sweyard_trainer.model.tokenizer import learn_tokenizer

    directory = tmp_path_factory.mktemp("storage") / "model"
    directory.mkdir()
    scratch = ScratchModel(layers=2, hidden_size=128, vocabulary_size=320)
    make_scratch_model(scratch, learn_tokenizer(TEXTS, 320, 1024), 1024, seed=1, directory=directory)
    return directory


@pytest.fixture
def tied_storage(tmp_path: Path, tiny_model: Path) -> Path:
    """A run's volume with a model whose output layer is its embeddings."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shutil.copytree(tiny_model, tmp_path / "model")
    config = AutoConfig.from_pretrained(tiny_model)
    config.tie_word_embeddings = True
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    return tmp_path


@pytest.fixture
def storage(tmp_path: Path, tiny_model: Path) -> Path:
    """A run's volume with the tiny model in it."""
    (tmp_path / "model").symlink_to(tiny_model)
    return tmp_path


@pytest.fixture
def make_segment() -> SegmentMaker:
    """Random ids, the second half sampled; the same seed gives the same."""

    def make(length: int, seed: int = 0, logprob: float = -5.7) -> Segment:
        mask = np.arange(length) >= length // 2
        return Segment(
            token_ids=np.random.default_rng(seed).integers(6, 300, length).astype(np.int32),
            loss_mask=mask,
            logprobs=np.where(mask, logprob, 0).astype(np.float32),
            weight_versions=np.where(mask, 0, -1).astype(np.int32),
        )

    return make


@pytest.fixture
def make_trajectory(make_segment: SegmentMaker) -> TrajectoryMaker:
    """One segment unless given; outcome by the reward unless given."""

    def make(
        reward: float,
        *,
        group: str = "g",
        length: int = 24,
        seed: int = 0,
        outcome: Outcome | None = None,
        segments: tuple[Segment, ...] | None = None,
        temperature: float = 1.0,
    ) -> Trajectory:
        return Trajectory(
            attempt_id=f"1/{group}/{seed}",
            task_id=group,
            group_id=group,
            segments=segments or (make_segment(length, seed),),
            outcome=outcome or (Outcome.SOLVED if reward > 0 else Outcome.UNSOLVED),
            reward=reward,
            temperature=temperature,
        )

    return make


IMPORTED_BY_A_RUN = (
    *("sweyard_trainer.model.scratch", "sweyard_trainer.rollout.build", "sweyard_sandbox.tasks.practice"),
    *("transformers.models.qwen3.modeling_qwen3", "torch.utils.tensorboard", "pyarrow.compute", "pandas"),
)
"""When it comes to them; pandas by PyArrow. They are a third of the processor time of a tiny run."""


@pytest.fixture(scope="session")
def warm_interpreter() -> Iterator[WarmInterpreter]:
    interpreter = WarmInterpreter("sweyard_trainer.run", *IMPORTED_BY_A_RUN)
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="session")
def serve_vllm(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[TrainingRunSpec, Path], AbstractContextManager[str]]:
    """Context manager that starts a real vLLM server for a resolved spec and a model directory; gives its URL."""
    return lambda spec, model: running_vllm(spec, model, tmp_path_factory.mktemp("vllm") / "log")
