"""What a run learns from is there: asked before a model is fetched, which may take an hour."""

from collections.abc import Sequence
from pathlib import Path

from sweyard_api.recorded import recorded_paths
from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.tasks.load import find_dataset
from sweyard_trainer.errors import UnsupportedError


def require_recorded(spec: TrainingRunSpec) -> None:
    """Raises UnsupportedError naming the first field whose file or directory is not here."""
    for path in recorded_paths(spec):
        if not path.is_here:
            raise UnsupportedError(f"{path}; name one that is, from the directory in which the run was started")


def require_datasets(spec: TrainingRunSpec, directories: Sequence[Path]) -> None:
    """Of the tasks that a resolved config's mode needs; a hub is not asked. Raises DatasetError."""
    sources = list(spec.tasks.eval)
    if spec.mode == "rl":
        imitated = spec.warmup.tasks if spec.warmup else None
        sources += [source for source in (spec.tasks.train, imitated) if source is not None]
    for source in sources:
        find_dataset(source.dataset, directories)
