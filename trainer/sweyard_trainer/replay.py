"""A recorded step trained once more, without engine or sandbox, and compared with what the run made of it.

It begins with the last checkpoint from before the step that is left, or with the initial weights, and trains every
recorded batch from there. The run's own directory is only read: what is written goes into a scratch directory. On the
machine of the run, or its like, figures and weights are the same bit for bit.
"""

import filecmp
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.completeness import COMPLETE, is_complete
from sweyard_trainer.custom import check_custom_code
from sweyard_trainer.errors import NothingToTrainError
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.rollouts.batches import read_batch
from sweyard_trainer.rollouts.files import ROLLOUTS
from sweyard_trainer.run_config import read_run_config
from sweyard_trainer.trajectory import Trajectory

CONFIG_FILE = "config.yaml"
FIGURES = "train/"
UNREPEATABLE = "seconds"


class ReplayError(SweyardError, ValueError):
    """The directory lacks what a replay needs."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the step came to this time, and whether that is what the run has."""

    begun_after: int
    """Step of the checkpoint that it began with; 0 is the initial weights, or those after the warm-up."""
    figures: Mapping[str, float]
    differing: Mapping[str, tuple[float, float]] | None
    """Figures that the run has otherwise: (the run's, this one's); None if the run has written none of the step."""
    same_weights: bool | None
    """None if the run has kept neither weights nor checkpoint from after the step."""

    @property
    def is_same(self) -> bool:
        """Nothing that could be compared differs."""
        return not self.differing and self.same_weights is not False


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a replay begins."""

    checkpoint: str | None
    phase: str | None
    """Of the checkpoint's optimizer."""
    loop: LoopState

    @property
    def step(self) -> int:
        """The last one done."""
        return self.loop.step


async def replay_step(directory: Path, step: int, scratch: Path, checkpoints: str | None = None) -> Replayed:
    """Train `step` of the run in `directory` again. `scratch` is empty; `checkpoints` is a path or URL, if not there.

    Raises ReplayError, NoBatchError, RolloutFormatError with a sentence.
    """
    spec = on_this_machine(_read_config(directory))
    check_custom_code(spec)
    store = CheckpointStore(checkpoints or str(directory.resolve() / "checkpoints"))
    beginning = find_beginning(store, spec, step)
    batches = [read_batch(directory / ROLLOUTS, number) for number in range(beginning.step + 1, step + 1)]
    _link_what_is_read(directory, beginning, scratch)
    learner = make_learner(spec, scratch, checkpoints=store.root)
    try:
        await learner.start()
        if beginning.checkpoint is not None:
            await learner.load(beginning.checkpoint)
        for number, batch in enumerate(batches):
            figures = await _train(learner, batch, beginning.loop.weight_version + number)
        version = beginning.loop.weight_version + len(batches)
        weights = await learner.save_weights(version)
        recorded = await _recorded_weights(directory / "weights" / str(version), step, learner, store)
    finally:
        await learner.stop()
    return Replayed(
        begun_after=beginning.step,
        figures=figures,
        differing=differing_figures(_recorded_figures(directory, step), figures),
        same_weights=None if recorded is None else same_files(recorded, weights),
    )


def on_this_machine(spec: TrainingRunSpec) -> TrainingRunSpec:
    """With as many ranks as the run has, since their number decides the order of sums, but all of them here."""
    ranks = spec.trainer.replicas * spec.trainer.processes_per_replica
    trainer = spec.trainer.model_copy(update={"replicas": 1, "processes_per_replica": ranks})
    return spec.model_copy(update={"trainer": trainer})


def find_beginning(store: CheckpointStore, spec: TrainingRunSpec, step: int) -> Beginning:
    """The nearest to `step`. Raises ReplayError if there is none."""
    if spec.mode != "rl":
        raise ReplayError(f"this is a run of mode {spec.mode}: only steps of mode rl have rollouts")
    for saved in reversed(store.complete()):
        if saved.is_main and saved.step < step:
            state = store.read_state(saved.name)
            return Beginning(saved.name, state.phase, LoopState.from_dict(state.extra))
    if spec.warmup is not None:
        raise ReplayError(
            f"no checkpoint from before step {step} is left, and the initial weights are from before the warm-up: "
            "replay a later step, or let the run keep more by checkpoint.keep"
        )
    return Beginning(None, None, LoopState())


def differing_figures(
    recorded: Mapping[str, float] | None, figures: Mapping[str, float]
) -> dict[str, tuple[float, float]] | None:
    """All but how long it took, to the last bit."""
    if recorded is None:
        return None
    pairs = {
        name: (float(recorded.get(name, math.nan)), float(figures.get(name, math.nan)))
        for name in sorted((recorded.keys() | figures.keys()) - {UNREPEATABLE})
    }
    return {name: pair for name, pair in pairs.items() if repr(pair[0]) != repr(pair[1])}


def same_files(one: Path, other: Path) -> bool:
    """Whether two directories hold files of the same names and bytes."""
    names = [{path.name for path in directory.iterdir()} - {COMPLETE} for directory in (one, other)]
    return names[0] == names[1] and all(filecmp.cmp(one / name, other / name, shallow=False) for name in names[0])


def _read_config(directory: Path) -> TrainingRunSpec:
    path = directory / CONFIG_FILE
    if not path.exists():
        raise ReplayError(f"{directory} has no {CONFIG_FILE}: give the directory of a run, with its config in it")
    if not (directory / "model").is_dir():
        raise ReplayError(f"{directory} has no model/, where a run keeps its initial weights")
    return read_run_config(path, ReplayError)


def _link_what_is_read(directory: Path, beginning: Beginning, scratch: Path) -> None:
    """The reference only where it is made already: making it would write through the link."""
    for name in ("model", *(["reference"] if beginning.phase == "rl" else [])):
        if (source := directory.resolve() / name).exists():
            (scratch / name).symlink_to(source)


async def _train(learner: Learner, batch: list[list[Trajectory]], version: int) -> Mapping[str, float]:
    """As the run does: a batch of which nothing can be trained is a step without an update."""
    try:
        return await learner.train_step(batch, version)
    except NothingToTrainError:
        return {"updates": 0.0}


async def _recorded_weights(published: Path, step: int, learner: Learner, store: CheckpointStore) -> Path | None:
    """What the run had after `step`: as it published them, or from its checkpoint."""
    if is_complete(published):
        return published
    saved = [checkpoint for checkpoint in store.complete() if checkpoint.is_main and checkpoint.step == step]
    if not saved:
        return None
    await learner.load(saved[-1].name)
    return await learner.save_weights(int(published.name) + 1)


def _recorded_figures(directory: Path, step: int) -> dict[str, float] | None:
    path = directory / "metrics" / "metrics.jsonl"
    whole_lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    for row in map(json.loads, whole_lines):
        if row["phase"] == "rl" and row["step"] == step:
            return {name.removeprefix(FIGURES): row[name] for name in row if name.startswith(FIGURES)}
    return None
