"""The batch that a recorded step was trained on: the same groups in the same order."""

from pathlib import Path

from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.rollouts.files import find_files, step_label
from sweyard_trainer.rollouts.reading import decoded, iterate_batches
from sweyard_trainer.trajectory import Trajectory


class NoBatchError(SweyardError, ValueError):
    """A step of which no whole batch is recorded."""


def read_batch(rollouts: Path, step: int) -> list[list[Trajectory]]:
    """What `Learner.train_step` was given in `step`. Raises NoBatchError, RolloutFormatError."""
    path = find_files(rollouts).get(step_label(step))
    if path is None:
        raise NoBatchError(f"{rollouts} holds no step {step}, or it has not ended")
    places: dict[tuple[int, int], Trajectory] = {}
    for rows in iterate_batches(path):
        groups, indices = (rows.column(name).to_pylist() for name in ("batch_group", "batch_index"))
        for place, attempt in zip(zip(groups, indices, strict=True), decoded(path, rows), strict=True):
            if None not in place:
                places[place] = attempt
    batch: list[list[Trajectory]] = []
    for (group, _), attempt in sorted(places.items(), key=lambda item: item[0]):
        if group == len(batch):
            batch.append([])
        batch[group].append(attempt)
    return batch
