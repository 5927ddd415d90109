"""A run without a cluster, from its start to its figures."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_api.program import call
from sweyard_cli.disk import writes_to
from sweyard_cli.ending import show_ending
from sweyard_cli.local.position import last_position
from sweyard_cli.local.trainer_process import TrainerProcess, forwarded_signals, stopped_with
from sweyard_cli.results.files import CONFIG_FILE, read_config
from sweyard_cli.view.live import follow
from sweyard_cli.view.local_source import LocalRunSource

POLL_SECONDS = 1.0


def run_command(file: Path, output: Path) -> str:
    """What starts a run, or goes on with it."""
    return call("run", "-f", file, "--output", output)


def stopped_and_how_to_go_on(file: Path, output: Path) -> str:
    """A stop saves what there is, so that the last checkpoint tells where the run stands."""
    if (position := last_position(output)) is not None:
        return f"stopped {position}; to go on: {run_command(file, output)}"
    return f"stopped; {how_to_go_on(file, output)}"


def how_to_go_on(file: Path, output: Path) -> str:
    """The command, and where it begins."""
    if (position := last_position(output)) is not None:
        return f"the last checkpoint is {position}; to go on from there: {run_command(file, output)}"
    if read_config(output / CONFIG_FILE).get("checkpoint", {}).get("url"):
        return f"to go on from the last checkpoint, if there is one: {run_command(file, output)}"
    return f"there is no checkpoint yet; to start from the beginning: {run_command(file, output)}"


def run_locally(
    process: TrainerProcess,
    name: str,
    file: Path,
    output: Path,
    console: Console,
    next_commands: Sequence[tuple[str, str]],
    *,
    poll_seconds: float = POLL_SECONDS,
) -> int:
    """Follow the trainer to its end and say what came of it; its exit code. Raises OSError if it cannot be said."""
    with forwarded_signals(process, lambda text: console.print(text, markup=False)), stopped_with(process):
        console.print(f"output in {output}, log in {process.log}", markup=False)
        follow(LocalRunSource(name, output, process), console, poll_seconds=poll_seconds, sleep=time.sleep)
    if process.is_stopped:
        console.print(stopped_and_how_to_go_on(file, output), markup=False)
    elif process.exit_code:
        console.print(f"failed with exit code {process.exit_code}: {process.reason()}", style="bold", markup=False)
        console.print(f"log: {process.log}", markup=False)
        if process.exit_code != EXIT_CODE_USER_FAULT:
            console.print(how_to_go_on(file, output), markup=False)
        elif (position := last_position(output)) is not None:
            going_on = f"once that is mended it goes on from there: {run_command(file, output)}"
            console.print(f"the last checkpoint is {position}; {going_on}", markup=False)
    else:
        with writes_to(output):
            show_ending(output, console, next_commands)
    return process.exit_code
