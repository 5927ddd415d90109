"""A run that is asked for again after its end: its figures at once, and how to begin anew."""

from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from sweyard_api.resolve import dump_config, resolve
from sweyard_cli.ending import show_ending
from sweyard_cli.local.lock import is_locked
from sweyard_cli.local.run import run_command
from sweyard_cli.local.trainer_process import PROGRESS_FILE
from sweyard_cli.results.files import CONFIG_FILE, read_json


def is_finished(document: dict[str, Any], output: Path) -> bool:
    """Whether `output` holds this very run, at its end. Of another config's run the trainer says so itself."""
    config = output / CONFIG_FILE
    if not config.exists() or is_locked(output):
        return False
    if read_json(output / PROGRESS_FILE).get("phase") != "finished":
        return False
    return config.read_bytes() == dump_config(resolve(document["spec"])).encode()


def show_finished(file: Path, output: Path, console: Console) -> None:
    """What the run came to."""
    console.print(f"already finished: {output} holds this run and its figures", markup=False)
    show_ending(output, console, [(run_command(file, free_neighbour(output)), "begin anew, in a directory of its own")])


def free_neighbour(output: Path) -> Path:
    """`output-2`, or the next number that is not taken."""
    output = output if output.name.strip(".") else output.resolve()  # `.` has no name to add a number to
    return next(path for number in count(2) if not (path := output.with_name(f"{output.name}-{number}")).exists())
