"""A model's directory that is not whole: told before anything loads it."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open

from sweyard_trainer.errors import ModelDamagedError

INDEX = "model.safetensors.index.json"


def check_intact(directory: Path, remedy: str) -> None:
    """Settings that can be read, weights as long as their headers say, and each file that the index names.

    Raises ModelDamagedError, whose sentence ends with `remedy`.
    """
    for file in sorted(directory.iterdir()):
        try:
            if file.suffix == ".json":
                json.loads(file.read_bytes())
            elif file.suffix == ".safetensors":
                with safe_open(file, framework="np"):
                    pass
        except (ValueError, SafetensorError) as error:
            raise ModelDamagedError(f"{file} is damaged ({error}): {remedy}") from error
    index = directory / INDEX
    named = set(json.loads(index.read_bytes()).get("weight_map", {}).values()) if index.is_file() else set()
    if lacking := sorted(name for name in named if not (directory / name).is_file()):
        raise ModelDamagedError(f"{directory} lacks {', '.join(lacking)}, which {INDEX} names: {remedy}")
