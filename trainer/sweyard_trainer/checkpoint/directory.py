"""Which checkpoints there are: `<storage>/checkpoints/step-<n>`, complete or not there (see atomic_directory)."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweyard_trainer.atomic_directory import finish, is_complete, partial_path, remove_directory, remove_partial
from sweyard_trainer.storage_errors import full_disk_as_storage_full

STATE_FILE = "state.json"
_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """All that is no tensor."""

    step: int
    phase: str | None
    """The optimizer's: `sft`, `rl`, or None before any update."""
    updates: int
    """Optimizer updates of this phase."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The main loop's own state."""


def find_latest(checkpoints: Path) -> Path | None:
    """The complete checkpoint with the highest step."""
    complete = _complete(checkpoints)
    return complete[-1] if complete else None


def read_state(checkpoint: Path) -> CheckpointState:
    """The non-tensor part."""
    return CheckpointState(**json.loads((checkpoint / STATE_FILE).read_text()))


def begin(checkpoints: Path, step: int, token: str) -> Path:
    """Clear what earlier writers left half done, and make the directory that the ranks write into."""
    with full_disk_as_storage_full(checkpoints):
        remove_partial(checkpoints)
        partial = partial_path(checkpoints / f"step-{step}", token)
        partial.mkdir(parents=True)
        return partial


def commit(partial: Path, checkpoints: Path, state: CheckpointState, keep: int) -> Path:
    """All ranks have written: add `state`, make it the latest, and drop all but `keep`. Raises StorageFullError."""
    target = checkpoints / f"step-{state.step}"
    with full_disk_as_storage_full(target):
        (partial / STATE_FILE).write_text(json.dumps(asdict(state)))
        if is_complete(target):  # saved again after a resume: same step, same content
            remove_directory(target)
        finish(partial, target)
    for old in _complete(checkpoints)[:-keep]:
        remove_directory(old)
    return target


def _complete(checkpoints: Path) -> list[Path]:
    """By ascending step."""
    if not checkpoints.is_dir():
        return []
    steps = {int(match[1]): path for path in checkpoints.iterdir() if (match := _NAME.fullmatch(path.name))}
    return [path for _, path in sorted(steps.items()) if is_complete(path)]
