"""The demo without a cluster: data set, training, figures."""

from pathlib import Path
from typing import Any

from rich.console import Console

from sweyard_api.program import call
from sweyard_cli.local.run import run_locally
from sweyard_cli.local.trainer_process import TrainerProcess, trainer_command


def run_local_demo(document: dict[str, Any], file: Path, output: Path, console: Console) -> int:
    """Train and show what came of it; the trainer's exit code. The data set must be there."""
    process = TrainerProcess(trainer_command(file, output, [], allow_unisolated=False), output)
    after = [
        ("make demo CLUSTER=native", "the same under the operator, on a real Kubernetes (Linux, root)"),
        (call("resolve", "-f", file), "everything that the run was made of"),
    ]
    return run_locally(process, str(document["metadata"]["name"]), file, output, console, after)
