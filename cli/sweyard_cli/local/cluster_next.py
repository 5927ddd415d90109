"""What takes a run of this machine to a cluster: first the data sets that were made here, then the file."""

from collections.abc import Sequence
from pathlib import Path

from sweyard_api.program import call
from sweyard_api.training_run import TrainingRunSpec


def cluster_commands(file: Path, spec: TrainingRunSpec, directories: Sequence[Path]) -> list[tuple[str, str]]:
    """(command, what it does); `directories` are those in which data sets with a plain name are looked for."""
    from sweyard_sandbox.tasks.tasks_file import TASKS_FILE

    sources = [*spec.tasks.sources, *([spec.warmup.tasks] if spec.warmup and spec.warmup.tasks else [])]
    commands = []
    for name in dict.fromkeys(source.dataset for source in sources if "/" not in source.dataset):
        if folder := next((base / name for base in directories if (base / name / TASKS_FILE).exists()), None):
            push = call("tasks", "push", folder, "--name", name, "--images", "images.json")
            meaning = f"its tasks on a cluster, first; images.json names an image of each folder in {folder / 'images'}"
            commands.append((push, meaning))
    return [*commands, (call("run", "-f", file, "--cluster"), "the same file on a cluster with the operator")]
