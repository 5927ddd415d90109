"""The resolved config that a run's directory holds, read again."""

from pathlib import Path

from pydantic import ValidationError
from yaml import YAMLError

from sweyard_api.resolve import load_config
from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError


def read_run_config(path: Path, error_type: type[SweyardError]) -> TrainingRunSpec:
    """Raises `error_type` for a file that is damaged, or another program's."""
    try:
        return load_config(path.read_text(encoding="utf-8"))
    except (YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise error_type(f"{path} holds no config of a run: it is damaged, or another program's") from error
