"""What a run learns from is there: asked before a model is fetched, which may take an hour."""

from sweyard_api.recorded import recorded_paths
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import UnsupportedError


def require_recorded(spec: TrainingRunSpec) -> None:
    """Raises UnsupportedError naming the first field whose file or directory is not here."""
    for path in recorded_paths(spec):
        if not path.is_here:
            raise UnsupportedError(f"{path}; name one that is, from the directory in which the run was started")
