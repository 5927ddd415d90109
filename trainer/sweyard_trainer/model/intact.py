"""A model's directory that was complete and is not whole any more: told before anything loads it."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open

from sweyard_trainer.errors import ModelDamagedError


def check_intact(directory: Path) -> None:
    """Settings that can be read, and weights as long as their headers say. Raises ModelDamagedError."""
    for file in sorted(directory.iterdir()):
        try:
            if file.suffix == ".json":
                json.loads(file.read_bytes())
            elif file.suffix == ".safetensors":
                with safe_open(file, framework="np"):
                    pass
        except (ValueError, SafetensorError) as error:
            raise ModelDamagedError(
                f"{file} is damaged ({error}): remove the directory {directory}, and the model is made or fetched again"
            ) from error
