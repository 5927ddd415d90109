"""sweyard watch."""

from pathlib import Path

import typer

from sweyard_api.program import program
from sweyard_cli.commands.options import NamespaceOption, RunArgument, RunDirectoryOption, demand_one_run
from sweyard_cli.console import make_console
from sweyard_cli.errors import UserError


def watch(
    name: RunArgument = None,
    namespace: NamespaceOption = None,
    output: RunDirectoryOption = None,
) -> None:
    """Follow a run until it ends. Interrupting only stops looking."""
    demand_one_run(name, output, namespace)
    try:
        code = _watch_here(output) if output is not None else _watch_cluster(str(name), namespace)
    except KeyboardInterrupt:
        typer.echo("no longer looking; the run goes on", err=True)
        code = 0
    raise typer.Exit(code)


def _watch_here(output: Path) -> int:
    import time

    from sweyard_cli.local.lock import LOCK_FILE
    from sweyard_cli.local.trainer_process import PROGRESS_FILE
    from sweyard_cli.view.live import follow
    from sweyard_cli.view.local_source import LocalRunSource

    if not any((output / name).is_file() for name in (LOCK_FILE, PROGRESS_FILE)):
        raise UserError(f"{output} is no directory of a run; one is made by `{program()} run`, by default runs/NAME")
    source = LocalRunSource(output.resolve().name, output)
    final = follow(source, make_console(), poll_seconds=1.0, sleep=time.sleep)
    return 0 if final.phase == "Succeeded" else 1


def _watch_cluster(name: str, namespace: str | None) -> int:
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.runs import follow_run

    return follow_run(connect(namespace), name, make_console())
